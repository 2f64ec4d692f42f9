"""Answers in the form that was asked for."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest

from tuckerkg.serve.formats import as_csv, takes_gzip

QUESTION = {"head": "e003", "relation": "plus2", "k": 5}


@pytest.mark.parametrize(
    ("accepted", "kind"),
    [
        ("*/*", "application/json"),
        ("text/csv", "text/csv; charset=utf-8"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/csv;q=0.5, application/json", "application/json"),
        ("application/json;q=0.1, text/csv", "text/csv; charset=utf-8"),
        ("text/html, */*;q=0.1", "application/json"),
    ],
)
def test_accept_chooses_the_form(service, accepted, kind):
    body = json.dumps(QUESTION).encode()
    status, _, headers = service.ask("POST", "/api/v1/predict", body, Content_Type="application/json", Accept=accepted)
    assert (status, headers["content-type"]) == (200, kind)


def test_what_there_is_none_of_is_refused(service):
    assert service.post("/api/v1/predict", QUESTION, Accept="text/html")[0] == 406
    assert service.ask("GET", "/api/v1/facts?entity=e003", Accept="text/csv;q=0")[0] == 406


def test_rows_are_those_of_the_json(service):
    _, said = service.post("/api/v1/predict", QUESTION)
    body = json.dumps(QUESTION).encode()
    _, text, _ = service.ask("POST", "/api/v1/predict", body, Content_Type="application/json", Accept="text/csv")
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert [row["tail_label"] for row in rows] == [fact["tail_label"] for fact in said["answers"]]
    _, lines, _ = service.ask("GET", "/api/v1/facts?entity=e003&limit=3", Accept="application/x-ndjson")
    _, whole, _ = service.ask("GET", "/api/v1/facts?entity=e003&limit=3")
    assert [json.loads(line) for line in lines.splitlines()] == json.loads(whole)["facts"]


def test_a_spreadsheet_finds_no_formula():
    text = as_csv([{"head": "=1+1", "tail": "@x", "known": True}]).decode()
    assert text == "head,tail,known\r\n'=1+1,'@x,true\r\n"


def test_large_answers_are_compressed_where_that_is_taken(service):
    path = "/api/v1/neighbourhood?entity=e003&hops=3&limit=100"
    _, plain, headers = service.ask("GET", path)
    assert "content-encoding" not in headers
    _, packed, headers = service.ask("GET", path, Accept_Encoding="br, gzip")
    assert headers["content-encoding"] == "gzip"
    assert len(packed) < len(plain)
    assert gzip.decompress(packed) == plain
    assert not takes_gzip("gzip;q=0")
    _, _, headers = service.ask("GET", "/static/app.js", Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"


def test_what_the_client_has_is_not_sent_again(service):
    for path in ("/api/v1/run", "/api/v1/relations", "/api/v1/openapi.json", "/static/app.js"):
        _, _, headers = service.ask("GET", path)
        status, body, again = service.ask("GET", path, If_None_Match=headers["etag"])
        assert (status, body, again["etag"]) == (304, b"", headers["etag"]), path
        assert service.ask("GET", path, If_None_Match='"other"')[0] == 200


def test_every_answer_has_the_id_of_its_request(service):
    _, _, headers = service.ask("GET", "/health", X_Request_ID="abc-123")
    assert headers["x-request-id"] == "abc-123"
    for wrong in ("x" * 65, "a b", "<script>"):
        assert service.ask("GET", "/health", X_Request_ID=wrong)[2]["x-request-id"] != wrong
    status, said = service.post("/api/v1/predict", {"head": "nobody"}, X_Request_ID="mine")
    assert (status, said["instance"]) == (404, "mine")


def test_lists_come_in_pages_and_unknown_parameters_are_refused(service):
    rows, offset = [], 0
    while offset is not None:
        _, text, _ = service.ask("GET", f"/api/v1/facts?entity=e003&limit=2&offset={offset}")
        page = json.loads(text)
        rows += page["facts"]
        offset = page["next"]
    assert len(rows) == page["total"] == len({json.dumps(row) for row in rows})
    status, text, _ = service.ask("GET", "/api/v1/facts?entity=e003&ofset=2")
    said = json.loads(text)
    assert (status, said["code"]) == (422, "unknown-parameter")
    assert "Did you mean 'offset'" in said["detail"]
    status, said = service.post("/api/v1/predict", QUESTION | {"kk": 1})
    assert (status, said["errors"][0]["pointer"]) == (422, "/kk")
