"""The tools of a run, called by the protocol's own client: in this process, as a program of their own, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from graphs import random_triples
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

import tuckerkg
from tuckerkg.mcp.server import build_server
from tuckerkg.mcp.tools import RunTools
from tuckerkg.review.decisions import Decisions

READERS = {"about", "search", "relations", "facts", "predict", "missing", "score", "explain", "decisions"}


@pytest.fixture
def copy(toy_run, tmp_path):
    return tuckerkg.load(toy_run.save(tmp_path / "run"))


def talk(run: tuckerkg.Run, program: Callable[[Client], Awaitable[Any]], by: str | None = None) -> Any:
    """What ``program`` makes of a client that is connected to the run's tools."""

    async def connected() -> Any:
        async with Client(build_server(tools)) as client:
            return await program(client)

    tools = RunTools(run, by)
    try:
        return asyncio.run(connected())
    finally:
        tools.close()


def call(run: tuckerkg.Run, name: str, by: str | None = None, **words: Any) -> CallToolResult:
    return talk(run, lambda client: client.call_tool(name, words), by)


def found(run: tuckerkg.Run, name: str, by: str | None = None, **words: Any) -> dict[str, Any]:
    result = call(run, name, by, **words)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content  # for clients that read text alone
    return result.structured_content


def refusal(run: tuckerkg.Run, name: str, **words: Any) -> str:
    result = call(run, name, **words)
    assert result.is_error
    return result.content[0].text


def test_every_tool_has_a_description_and_schemas_and_reading_is_told_from_writing(toy_run):
    listed = talk(toy_run, lambda client: client.list_tools(), "a program").tools
    assert {tool.name for tool in listed} == READERS | {"decide", "undo"}
    for tool in listed:
        assert tool.description
        assert len(tool.description.split()) > 6
        assert tool.output_schema["properties"]
        assert tool.annotations.read_only_hint is (tool.name in READERS)


def test_without_a_name_nothing_can_be_decided(toy_run):
    listed = talk(toy_run, lambda client: client.list_tools()).tools
    assert {tool.name for tool in listed} == READERS
    assert "decide" in refusal(toy_run, "decide", facts=[], choice="accept")
    assert found(toy_run, "about")["may_decide"] is False


def test_answers_are_those_of_the_run(toy_run):
    asked = {"head": "e003", "relation": "plus1"}
    expected = toy_run.predict(**asked, k=4)
    told = found(toy_run, "predict", **asked, limit=4)["facts"]
    assert [fact["tail"] for fact in told] == [fact.tail for fact in expected]
    assert [fact["probability"] for fact in told] == pytest.approx([fact.probability for fact in expected])
    (judged,) = toy_run.score([("e003", "plus1", "e007")])
    (said,) = found(toy_run, "score", facts=[{"head": "e003", "relation": "plus1", "tail": "e007"}])["facts"]
    assert (said["probability"], said["verdict"]) == (pytest.approx(judged.probability), judged.verdict)
    why = found(toy_run, "explain", head="e003", relation="plus1", tail="e004")
    explained = toy_run.explain("e003", "plus1", "e004")
    assert (why["rank"], why["candidates"]) == (explained.standing.rank, explained.candidates)
    assert len(why["paths"]) == len(explained.paths)


def test_facts_come_in_pages_and_by_relation(toy_run):
    whole = found(toy_run, "facts", entity="e003", limit=100)
    assert whole["total"] == len(whole["facts"]) > 3
    assert whole["next_offset"] is None
    pages, offset = [], 0
    while offset is not None:
        page = found(toy_run, "facts", entity="e003", limit=2, offset=offset)
        pages, offset = pages + page["facts"], page["next_offset"]
    assert pages == whole["facts"]
    some = found(toy_run, "facts", entity="e003", relation="plus1", limit=100)["facts"]
    assert some == [fact for fact in whole["facts"] if fact["relation"] == "plus1"]


def test_names_are_found_and_unknown_ones_answered_with_near_ones(toy_run):
    assert [each["label"] for each in found(toy_run, "search", words="E00", limit=3)["entities"]] != []
    assert {each["label"] for each in found(toy_run, "relations")["relations"]} == set(toy_run.relations.labels)
    assert "no entity 'e0003'" in refusal(toy_run, "predict", head="e0003", relation="plus1")
    assert "no relation 'plus9'" in refusal(toy_run, "facts", entity="e003", relation="plus9")


@pytest.mark.parametrize(
    "words", [{}, {"relation": "plus1"}, {"head": "e001", "limit": 0}, {"head": "", "relation": "plus1"}]
)
def test_a_question_that_is_none_is_refused_in_words(toy_run, words):
    said = refusal(toy_run, "predict", **words)
    assert said
    assert "Traceback" not in said
    assert said != "Error executing tool predict"


def test_the_search_for_missing_facts_says_how_far_it_is_and_ends(tmp_path):
    triples = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in random_triples(1, 12, 3, 60).tolist()]
    settings = {"model.dim": 8, "model.relation_dim": 8, "train.steps": 3, "train.threads": 1}
    run = tuckerkg.train(triples, encoder="none", decoder="distmult", overrides=settings, out=tmp_path / "run")

    async def until_ready(client: Client) -> list[dict[str, Any]]:
        told: dict[str, Any] = {"state": "working"}
        while told["state"] == "working":
            told = (await client.call_tool("missing", {"limit": 5})).structured_content
            await asyncio.sleep(0.02)
        of_one = (await client.call_tool("missing", {"limit": 2, "relation": "r1"})).structured_content
        return [told, of_one]

    told, of_one = talk(run, until_ready)
    assert told["state"] == "ready"
    assert [fact["probability"] for fact in told["facts"]] == pytest.approx(
        [fact.probability for fact in run.top_missing(5)]
    )
    assert len(told["facts"]) == 5
    assert [fact["relation"] for fact in of_one["facts"]] == ["r1", "r1"]


def test_decisions_are_kept_beside_the_run_and_taken_back(copy):
    fact = {"head": "e003", "relation": "plus1", "tail": "e004"}
    made = found(copy, "decide", "a program", facts=[fact], choice="accept", note="two paths")
    assert made["counts"] == {"accept": 1, "reject": 0, "defer": 0}
    (kept,) = Decisions(copy.path).current()
    assert (kept.fact, kept.choice, kept.by, kept.note) == (tuple(fact.values()), "accept", "a program", "two paths")
    assert kept.probability == pytest.approx(copy.score([tuple(fact.values())])[0].probability)
    assert found(copy, "decisions", choice="accept")["decisions"][0]["head"] == "e003"
    assert found(copy, "undo", "a program")["counts"]["accept"] == 0
    assert not Decisions(copy.path).current()


# ------------------------------------------------------------------------------------------ as a program


def test_a_client_starts_it_on_standard_input_and_output(copy):
    async def asked() -> Any:
        words = ["-m", "tuckerkg", "mcp", str(copy.path)]
        async with Client(StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))) as client:
            return await client.call_tool("predict", {"head": "e003", "relation": "plus1", "limit": 2})

    told = asyncio.run(asked()).structured_content["facts"]
    assert [fact["tail"] for fact in told] == [fact.tail for fact in copy.predict(head="e003", relation="plus1", k=2)]


def test_over_http_the_token_is_asked_for(copy):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["mcp", str(copy.path), "--http", "--port", str(port), "--token", "secret-of-sixteen"]
    with subprocess.Popen([sys.executable, "-m", "tuckerkg", *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert f"ready: http://127.0.0.1:{port}/mcp" in process.stderr.readline()
            told, refused, foreign = asyncio.run(over_http(f"http://127.0.0.1:{port}/mcp"))
        finally:
            process.terminate()
    assert told["name"] == "run"
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert foreign.status_code == 421


async def over_http(address: str) -> tuple[dict[str, Any], Any, Any]:
    async with httpx2.AsyncClient(headers={"Authorization": "bearer secret-of-sixteen"}) as http:
        for _ in range(200):  # the line is printed just before the server accepts
            try:
                foreign = await http.post(address, json={}, headers={"Host": "elsewhere.example"})
                break
            except httpx2.ConnectError:
                await asyncio.sleep(0.05)
        async with Client(streamable_http_client(address, http_client=http)) as client:
            told = (await client.call_tool("about", {})).structured_content
    async with httpx2.AsyncClient() as http:
        return told, await http.post(address, json={}, headers={"Authorization": "Bearer wrong"}), foreign
