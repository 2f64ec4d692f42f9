"""The service against its own OpenAPI document, with requests that Schemathesis makes up from it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

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
EXAMPLES = 40


@pytest.fixture(scope="module")
def document(service):
    return schemathesis.openapi.from_url(f"{service.address}/api/openapi.json")


def operations(document) -> list[Any]:
    return [found.ok() for found in document.get_all_operations()]


def known(run: Any) -> st.SearchStrategy[dict[str, str]]:
    """Labels that the graph holds, for the fields that take one."""
    entity, relation = (st.sampled_from(names.labels) for names in (run.entities, run.relations))
    return st.fixed_dictionaries({}, optional={"head": entity, "relation": relation, "tail": entity, "entity": entity})


def with_names(given: Any, names: dict[str, str], fields: set[str]) -> Any:
    """``given`` with some of its fields, or those of the questions in it, replaced by names of the graph."""
    if not isinstance(given, dict):
        return given
    questions = given.get("questions")
    if isinstance(questions, list):
        return given | {"questions": [with_names(each, names, fields) for each in questions]}
    return given | {field: name for field, name in names.items() if field in fields}


def ask_all(operation: Any, mode: GenerationMode, run: Any, statuses: Counter[tuple[str, int]]) -> None:
    """Requests to one route, well formed with names of the graph among them, or malformed."""

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), names=known(run))
    def fuzz(case, names):
        if mode is GenerationMode.POSITIVE:
            case.query = with_names(case.query, names, {"entity"})
            case.body = with_names(case.body, names, {"head", "relation", "tail"})
        answer = case.call_and_validate(checks=CHECKS)
        statuses[operation.label, answer.status_code] += 1

    with suppress(Unsatisfiable):  # a route without arguments cannot be asked wrongly
        fuzz()


def ask_plainly(operation: Any, run: Any, statuses: Counter[tuple[str, int]]) -> None:
    """One request that is surely well formed, to routes where made-up ones seldom are."""
    head, relation, tail = run.entities.labels[0], run.relations.labels[0], run.entities.labels[1]
    question = {"head": head, "relation": relation}
    bodies: dict[str, dict[str, Any]] = {
        "POST /api/predict": question,
        "POST /api/predict/batch": {"questions": [question]},
        "POST /api/explain": question | {"tail": tail},
        "POST /api/score": {"facts": [{"head": question["head"], "relation": question["relation"], "tail": tail}]},
    }
    if operation.label in bodies:
        case = operation.Case(body=bodies[operation.label], media_type="application/json")
        statuses[operation.label, case.call_and_validate(checks=CHECKS).status_code] += 1


def test_every_route_keeps_to_its_document_whatever_is_asked(service, document, served_run):
    """B63-B70: no 5xx, no undeclared status, no answer outside its schema, nothing malformed accepted."""
    statuses: Counter[tuple[str, int]] = Counter()
    for operation in operations(document):
        ask_plainly(operation, served_run, statuses)
        for mode in MODES:
            ask_all(operation, mode, served_run, statuses)
    asked = {operation.label for operation in operations(document)}
    assert {label for label, status in statuses if status == 200} == asked  # answered too, not only refused
    assert not [status for _, status in statuses if status >= 500]
    assert service.process.poll() is None
