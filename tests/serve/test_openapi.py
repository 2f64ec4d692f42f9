"""The service against its own OpenAPI document, with requests that Schemathesis makes up from it."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks
from services import running

# Not among them: that everything well formed is accepted. A question that leaves nothing open, or names nobody, is
# refused, and JSON Schema cannot say so.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
EXAMPLES = 15
LIMITS = ("--limit", "jobs=1", "--limit", "budget=100000", "--limit", "request_cost=1000")
# Nothing is before version 1, nothing is accepted that could be added, and a graph that is sent takes seconds.
ONLY_REFUSED = {"GET /api/v1/changes", "POST /api/v1/decisions/add", "POST /api/v1/uploads"}


@pytest.fixture(scope="module")
def fuzzed(served_run, tmp_path_factory):
    """A run of its own, about which decisions are made."""
    place = tmp_path_factory.mktemp("fuzzed") / "run"
    shutil.copytree(served_run.path, place)
    with running(place, "--allow-training", *LIMITS) as found:
        yield found


@pytest.fixture(scope="module")
def document(fuzzed):
    refused = {
        "negative_data_rejection": {"expected-statuses": [400, 403, 404, 405, 406, 413, 414, 415, 422, 429, 431]}
    }
    config = schemathesis.Config.from_dict({"checks": refused})
    return schemathesis.openapi.from_url(f"{fuzzed.address}/api/v1/openapi.json", config=config)


def operations(document) -> list[Any]:
    return [found.ok() for found in document.get_all_operations()]


def known(run: Any) -> st.SearchStrategy[dict[str, str]]:
    """Labels that the graph holds, for the fields that take one."""
    entity, relation = (st.sampled_from(names.labels) for names in (run.entities, run.relations))
    return st.fixed_dictionaries({}, optional={"head": entity, "relation": relation, "tail": entity, "entity": entity})


def with_names(given: Any, names: dict[str, str], fields: set[str]) -> Any:
    """``given`` with some of its fields, or those of what is in it, replaced by names of the graph."""
    if not isinstance(given, dict):
        return given
    for several in ("questions", "facts", "decisions"):
        if isinstance(given.get(several), list):
            return given | {several: [with_names(each, names, fields) for each in given[several]]}
    return given | {field: name for field, name in names.items() if field in fields}


def ask_all(operation: Any, mode: GenerationMode, run: Any, statuses: Counter[tuple[str, int]]) -> None:
    """Requests to one route, well formed with names of the graph among them, or malformed."""

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), names=known(run))
    def fuzz(case, names):
        if mode is GenerationMode.POSITIVE:
            case.query = with_names(case.query, names, {"entity"})
            if operation.label != "POST /api/v1/jobs":
                case.body = with_names(case.body, names, {"head", "relation", "tail"})
        answer = case.call_and_validate(checks=CHECKS)
        statuses[operation.label, answer.status_code] += 1

    with suppress(Unsatisfiable):  # a route without arguments cannot be asked wrongly
        fuzz()


def ask_plainly(operation: Any, run: Any, job: str, statuses: Counter[tuple[str, int]]) -> None:
    """One request that is surely well formed."""
    head, relation, tail = run.entities.labels[0], run.relations.labels[0], run.entities.labels[1]
    question = {"head": head, "relation": relation}
    bodies: dict[str, dict[str, Any]] = {
        "predict": question,
        "predict/batch": {"questions": [question, {"head": "nobody", "relation": relation}]},
        "explain": question | {"tail": tail},
        "score": {"facts": [question | {"tail": tail}, question | {"tail": "nobody"}]},
        "decisions": {"decisions": [question | {"tail": tail, "choice": "accept"}], "by": "a test"},
        "decisions/undo": {"by": "a test"},
        "decisions/add": {},
    }
    queries = {"entities": {"q": "e0"}, "complete": {"q": "e000 pl"}, "relation": {"relation": relation}}
    name = operation.label.partition("/api/v1/")[2]
    given: dict[str, Any] = {"query": queries.get(name, {"entity": head} if _takes_entity(operation) else {})}
    if operation.method.upper() == "POST" and name in bodies:
        given |= {"body": bodies[name], "media_type": "application/json"}
    elif operation.method.upper() != "GET" and name != "runs/{name}/switch":
        return
    if "{" in name:
        given["path_parameters"] = {"id": job, "name": "run"}
    statuses[operation.label, operation.Case(**given).call_and_validate(checks=CHECKS).status_code] += 1


def _takes_entity(operation: Any) -> bool:
    required = [each["name"] for each in operation.definition.raw.get("parameters", []) if each.get("required")]
    return required == ["entity"]


def made_report(fuzzed) -> str:
    """A job that has ended with a file."""
    status, said = fuzzed.post("/api/v1/jobs", {"kind": "report"})
    assert status == 202
    number = said["job"]["id"]
    end = time.monotonic() + 120
    while (job := json.loads(fuzzed.ask("GET", f"/api/v1/jobs/{number}")[1]))["state"] in ("waiting", "working"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert job["state"] == "done", job
    return number


def test_every_route_keeps_to_its_document_whatever_is_asked(fuzzed, document, served_run):
    """B63-B70: no 5xx, no undeclared status, no answer outside its schema, nothing malformed accepted."""
    statuses: Counter[tuple[str, int]] = Counter()
    job = made_report(fuzzed)
    for operation in operations(document):
        ask_plainly(operation, served_run, job, statuses)
    for operation in operations(document):
        for mode in MODES:
            ask_all(operation, mode, served_run, statuses)
    asked = {operation.label for operation in operations(document)}
    answered = {label for label, status in statuses if status in (200, 202)}
    assert asked - answered <= ONLY_REFUSED | {"DELETE /api/v1/jobs/{id}", "POST /api/v1/jobs"}
    assert not [status for _, status in statuses if status >= 500]
    assert fuzzed.process.poll() is None


def test_the_document_has_what_a_generator_of_clients_needs(fuzzed):
    found = json.loads(fuzzed.ask("GET", "/api/v1/openapi.json")[1])
    assert found["openapi"].startswith("3.1")
    assert found["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    names = [operation["operationId"] for path in found["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) > 30
    assert all(name.isidentifier() for name in names)
    assert found["servers"]
    steps = found["components"]["schemas"]["Step"]["properties"]
    assert {"from", "from_label", "relation", "to", "forwards"} <= set(steps)
    for path in found["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"]


def test_every_body_and_needed_name_has_an_example_that_is_answered(fuzzed):
    found = json.loads(fuzzed.ask("GET", "/api/v1/openapi.json")[1])
    tried = Counter()
    for path, item in found["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            needed = [
                each for each in operation.get("parameters", ()) if each.get("required") and each["in"] == "query"
            ]
            if "{" in path or path.endswith(("changes", "uploads", "decisions/add")):
                continue
            query = urlencode({each["name"]: each["example"] for each in needed})
            given = None
            if body is not None:
                name = body["schema"]["$ref"].rpartition("/")[2]
                given = json.dumps(found["components"]["schemas"][name]["examples"][0]).encode()
            headers = {} if given is None else {"Content_Type": "application/json"}
            status, said, _ = fuzzed.ask(method.upper(), f"{path}?{query}", given, **headers)
            assert status in (200, 202, 429), (method, path, said)
            tried[method] += 1
    assert tried["get"] > 10
    assert tried["post"] > 5
