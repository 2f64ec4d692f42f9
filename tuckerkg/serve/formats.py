"""Answers in the form that was asked for: JSON, rows of CSV or NDJSON; with ETag and gzip, written piece by piece."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tuckerkg.serve.problems import Refused

Format = Literal["application/json", "text/csv", "application/x-ndjson"]
JSON: Format = "application/json"
CSV: Format = "text/csv"
NDJSON: Format = "application/x-ndjson"
ZIPPED = 1_024  # bytes from where on an answer is compressed
PIECE = 65_536  # bytes that are written at once
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes what begins so for a formula


class PieceResponse(Response):
    """An answer that is handed to the connection piece by piece, each when there is room for it."""

    when_sent: Callable[[], None] | None = None  # called once, when it is out or nobody takes it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            body = memoryview(self.body)
            for first in range(0, max(len(body), 1), PIECE):
                more = first + PIECE < len(body)
                piece = bytes(body[first : first + PIECE])
                await send({"type": "http.response.body", "body": piece, "more_body": more})
        finally:
            if self.when_sent is not None:
                self.when_sent()
                self.when_sent = None


def format_of(request: Request) -> Format:
    """What the client would like best of what there is.

    Raises:
        Refused: it takes none of them.
    """
    wanted = request.headers.get("accept", "*/*")
    ranked: list[tuple[float, Format]] = []
    for part in wanted.split(","):
        kind, _, parameters = part.strip().partition(";")
        quality = _quality(parameters)
        kind = kind.strip().lower()
        if quality <= 0:
            continue
        if kind in (CSV, NDJSON, JSON):
            ranked.append((quality + 0.0005, kind))
        elif kind in ("*/*", "application/*", "application/problem+json"):
            ranked.append((quality, JSON))
        elif kind == "text/*":
            ranked.append((quality, CSV))
    if not ranked:
        raise Refused(406, f"this is given as {JSON}, {CSV} or {NDJSON}")
    return max(ranked, key=lambda each: each[0])[1]


def _quality(parameters: str) -> float:
    for each in parameters.split(";"):
        name, _, value = each.strip().partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def as_json(found: BaseModel) -> bytes:
    """A model as JSON."""
    return found.model_dump_json(by_alias=True).encode()


def as_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as CSV with a header; what a spreadsheet would take for a formula gets an apostrophe before it."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), extrasaction="ignore", lineterminator="\r\n")
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(DANGEROUS):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value


def as_ndjson(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as JSON, one a line."""
    return b"".join(json.dumps(dict(row), ensure_ascii=False).encode() + b"\n" for row in rows)


def rows_as(kind: Format, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows in one of the two forms for them."""
    return as_csv(rows) if kind == CSV else as_ndjson(rows)


def plain_rows(models: Iterable[BaseModel]) -> list[dict[str, Any]]:
    """Models as rows."""
    return [each.model_dump(by_alias=True) for each in models]


def respond(
    request: Request,
    body: bytes,
    kind: str = JSON,
    *,
    lasting: bool = False,
    headers: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """An answer, compressed where the client takes that.

    Args:
        request: what it answers.
        body: in the form ``kind``.
        lasting: it depends on the run alone: it gets an ETag, and none is sent to who has it already.
        headers: further ones.
        status: of success.
    """
    found = dict(headers or {})
    if kind == CSV:
        kind = f"{CSV}; charset=utf-8"
    found["vary"] = "Accept, Accept-Encoding"
    if lasting:
        tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        found["etag"], found["cache-control"] = tag, "private, no-cache"
        given = request.headers.get("if-none-match", "")
        if tag in (each.strip() for each in given.split(",")) or given.strip() == "*":
            return Response(None, 304, found)
    if len(body) > ZIPPED and takes_gzip(request.headers.get("accept-encoding", "")):
        body = gzip.compress(body, 5, mtime=0)
        found["content-encoding"] = "gzip"
    return PieceResponse(body, status, found, kind)


def takes_gzip(accepted: str) -> bool:
    """Whether Accept-Encoding names gzip, and not as what is never to come."""
    for part in accepted.lower().split(","):
        name, _, parameters = part.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return _quality(parameters) > 0
    return False
