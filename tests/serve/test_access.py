"""Who may ask for what: tokens with names and roles, from a file that may change; wrong ones; other origins."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import time

import pytest
from services import running

from tuckerkg.errors import TuckerkgError
from tuckerkg.serve.access import FREE_TRIES, MOST_PAUSES, Access, Caller, WrongTokens, checked_origins
from tuckerkg.serve.client import Client, ServiceError
from tuckerkg.serve.middleware import Guard
from tuckerkg.serve.problems import Refused

ALICE, BOB, CAROL = "a" * 20, "b" * 20, "c" * 20


def table(name: str, token: str, *roles: str) -> str:
    return f'[[token]]\nname = "{name}"\nroles = {list(roles)!r}\ntoken = "{token}"\n'


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "tokens.toml"
    found.write_text(table("alice", ALICE, "read", "decide") + table("bob", BOB, "read"))
    return found


def test_a_token_has_a_name_and_roles(file):
    access = Access(file=file)
    assert access.caller(ALICE, "10.0.0.1") == Caller("alice", "alice", ("read", "decide"))
    assert access.caller(BOB, "10.0.0.1") == Caller("bob", "bob", ("read",))
    assert access.caller("x" * 20, "10.0.0.1") is None
    assert access.caller(None, "10.0.0.1") is None
    with pytest.raises(Refused, match="role 'decide'"):
        access.caller(BOB, "-").need("decide")


def test_without_tokens_everyone_reads_and_decides_and_trains_where_that_is_allowed():
    assert Access().caller(None, "127.0.0.1") == Caller("127.0.0.1", None, ("read", "decide"))
    assert "train" in Access(training=True).caller(None, "127.0.0.1").roles
    assert Access(token="t" * 20).caller(None, "127.0.0.1") is None


def test_a_file_that_changes_is_read_again_and_one_that_is_damaged_is_not(file):
    access = Access(file=file)
    file.write_text(table("alice", CAROL, "read") + table("alice", ALICE, "read"))  # two at a time
    os.utime(file, ns=(1, 1))
    assert access.caller(CAROL, "-").name == access.caller(ALICE, "-").name == "alice"
    assert access.caller(BOB, "-") is None
    file.write_text("[[token]")
    os.utime(file, ns=(2, 2))
    assert access.caller(CAROL, "-").name == "alice"


def test_a_file_may_hold_digests_alone(tmp_path):
    file = tmp_path / "tokens.toml"
    digest = hashlib.sha256(ALICE.encode()).hexdigest()
    file.write_text(f'[[token]]\nname = "alice"\nroles = ["train"]\nsha256 = "{digest}"\n')
    assert Access(file=file).caller(ALICE, "-").roles == ("read", "train")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"holds no \[\[token\]\]"),
        ("[[token]", "is not TOML"),
        (table("a", "short", "read"), "fewer than 16"),
        (table("a", ALICE, "rule"), "expected some of read, decide, train"),
        (table("", ALICE, "read"), "needs a name"),
        ('[[token]]\nname = "a"\nroles = ["read"]\n', "needs token or sha256"),
        ('[[token]]\nname = "a"\nsha256 = "12"\n', "64 hexadecimal digits"),
        (table("a", ALICE, "read") + "colour = 1\n", "'colour' is unknown"),
        (table("a", ALICE, "read") * 3, "two are enough"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path, text, said):
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(TuckerkgError, match=said):
        Access(file=file)


def test_wrong_tokens_wait_longer_each_time_and_few_at_once():
    now = 0.0
    wrong = WrongTokens(clock=lambda: now)
    pauses = []
    for _ in range(FREE_TRIES + 8):
        pauses.append(wrong.begin("10.0.0.7"))
        wrong.end("10.0.0.7")
    assert pauses[:FREE_TRIES] == [0.0] * FREE_TRIES
    assert pauses[FREE_TRIES:] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert wrong.begin("10.0.0.8") == 0.0
    waiting = [wrong.begin("10.0.0.7") for _ in range(MOST_PAUSES + 1)]
    assert waiting == [2.0] * MOST_PAUSES + [None]
    for _ in range(MOST_PAUSES):
        wrong.end("10.0.0.7")
    now = 61.0
    assert wrong.begin("10.0.0.7") == 0.0


def test_a_right_token_does_not_wait_behind_wrong_ones():
    guard = Guard(_ok, access=Access("a" * 32))

    async def status(token):
        sent = []

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/api/x", "headers": headers, "client": ("10.0.0.7", 1)}
        await guard(scope, None, send)
        return sent[0]["status"]

    async def several():
        for _ in range(30):
            guard.wrong.begin("10.0.0.7")
            guard.wrong.end("10.0.0.7")
        waiting = [asyncio.create_task(status("b" * 32)) for _ in range(MOST_PAUSES)]
        await asyncio.sleep(0)
        found = await status("a" * 32), await status("c" * 32), any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        return found

    assert asyncio.run(several()) == (200, 429, False)


async def _ok(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "origin", ["notebook.example.org", "ftp://a", "https://a/b", "https://a:x", "*", "null", "https://"]
)
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(TuckerkgError, match="expected a scheme and a host"):
        checked_origins([origin])
    assert checked_origins(["https://Notebook.example.org/", "http://[::1]:8888"]) == {
        "https://notebook.example.org", "http://[::1]:8888",
    }  # fmt: skip


def test_a_page_of_an_allowed_origin_may_ask_and_no_other(served_run):
    ours, others = "https://notebook.example.org", "https://example.org"
    asks = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}
    with running(served_run.path, "--allow-origin", ours, token="t" * 32) as found:
        before = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
        status, _, given = found.ask("OPTIONS", "/api/v1/predict", Origin=ours, **before, **asks)
        assert (status, given["access-control-allow-origin"]) == (204, ours)
        assert "authorization" in given["access-control-allow-headers"]
        assert "Origin" in given["vary"]
        assert "access-control-allow-credentials" not in given
        token = {"Authorization": "Bearer " + "t" * 32}
        status, _, given = found.ask("GET", "/api/v1/run", Origin=ours, **token, **asks)
        assert (status, given["access-control-allow-origin"]) == (200, ours)
        assert "x-request-id" in given["access-control-expose-headers"]
        assert "Origin" in given["vary"]
        status, _, given = found.ask("GET", "/api/v1/run", Origin=ours, **asks)
        assert (status, given["access-control-allow-origin"]) == (401, ours)
        for origin in (others, ours + ".evil.example", "null"):
            status, _, given = found.ask("GET", "/api/v1/run", Origin=origin, **token, **asks)
            assert status == 403
            assert "access-control-allow-origin" not in given


def test_every_request_is_a_line_of_json_without_secrets_queries_and_bodies(served_run, tmp_path, file):
    written = tmp_path / "access.jsonl"
    with running(served_run.path, "--token-file", str(file), "--access-log", str(written)) as found:
        token = {"Authorization": f"Bearer {ALICE}"}
        found.ask("GET", "/api/v1/entities?q=secret-words", X_Request_ID="mine-1", **token)
        found.post("/api/v1/predict", {"head": "e000", "relation": "plus1"}, X_Request_ID="mine-2", **token)
        found.ask("GET", "/api/v1/run", X_Request_ID="mine-3")
        end = time.monotonic() + 30
        while written.read_text(encoding="utf-8").count("mine-") < 3 and time.monotonic() < end:
            time.sleep(0.05)
    text = written.read_text(encoding="utf-8")
    lines = {line["id"]: line for line in map(json.loads, text.splitlines())}
    searched, asked, refused = (lines[f"mine-{number}"] for number in (1, 2, 3))
    assert (searched["status"], searched["route"], searched["who"]) == (200, "/api/v1/entities", "alice")
    assert asked["questions"] == 1
    assert asked["cost"] > 0
    assert asked["ms"] > 0
    assert asked["bytes"] > 0
    assert asked["run"] == "run"
    assert (refused["status"], refused["code"]) == (401, "token-needed")
    for secret in (ALICE, "secret-words", "plus1"):
        assert secret not in text


def test_roles_are_kept_over_http(served_run, tmp_path, file):
    place = tmp_path / "run"
    shutil.copytree(served_run.path, place)
    fact = [("e000", "plus1", "e005")]
    with running(place, "--token-file", str(file)) as found:
        alice, bob = Client(found.address, ALICE), Client(found.address, BOB)
        assert (alice.runs()["who"], alice.runs()["roles"], alice.runs()["may_name"]) == (
            "alice",
            ["read", "decide"],
            False,
        )
        assert alice.decide(fact, "accept")["decisions"][0]["by"] == "alice"
        for asked in (
            lambda: bob.decide(fact, "reject"),
            lambda: alice.start("train", upload="0" * 16, name="x"),
            lambda: alice.decide(fact, "reject", by="bob"),
        ):
            with pytest.raises(ServiceError) as refused:
                asked()
            assert refused.value.status == 403
        assert bob.decisions()["counts"] == {"accept": 1, "reject": 0, "defer": 0}
        status, _, headers = found.ask("GET", "/api/v1/runs")
        assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="tuckerkg"')
