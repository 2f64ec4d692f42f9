"""Errors as they go over the wire: problem+json (RFC 9457) with a code for programs and a sentence for people."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from tuckerkg.errors import printable

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "x-request-id"
UNEXPECTED = "something went wrong here; the log has it under this id"
CODES = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    408: "too-slow",
    409: "conflict",
    413: "too-large",
    414: "uri-too-long",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-costly",
    431: "head-too-large",
    500: "unexpected",
    503: "unavailable",
}
# What a status asks of the client; after some the rest of a body may still be on its way, so the connection ends.
HEADERS_OF_STATUS: dict[int, dict[str, str]] = {
    401: {"www-authenticate": 'Bearer realm="tuckerkg"'},
    503: {"retry-after": "1"},
    **{status: {"connection": "close"} for status in (400, 408, 413, 431)},
}


class Refused(Exception):
    """A request that is answered with a problem.

    Args:
        status: of HTTP.
        detail: what was wrong, what is allowed, and the remedy.
        code: for programs; None: that of the status.
        more: further members of the problem.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        code: str | None = None,
        *,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.code = code or CODES.get(status, "refused")
        self.more, self.headers = dict(more or {}), dict(headers or {})

    def as_dict(self, number: str | None = None) -> dict[str, Any]:
        """The problem as JSON."""
        found: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": printable(self.detail)[:2_000],
            "code": self.code,
        }
        if number is not None:
            found["instance"] = number
        return found | self.more


def later(status: int, detail: str, code: str, seconds: float) -> Refused:
    """A refusal that asks to come again after some seconds."""
    wait = max(1, math.ceil(seconds))
    return Refused(status, detail, code, more={"retry_after": wait}, headers={"retry-after": str(wait)})


def answer(refused: Refused, number: str | None = None) -> Response:
    """The answer to a request that is refused."""
    number = number or secrets.token_hex(8)
    headers = {**HEADERS_OF_STATUS.get(refused.status, {}), **refused.headers, REQUEST_ID: number}
    body = json.dumps(refused.as_dict(number), ensure_ascii=False).encode()
    return Response(body, refused.status, headers, MEDIA_TYPE)


def field_errors(errors: Sequence[Any]) -> list[dict[str, str]]:
    """What pydantic says of fields, as pointers and sentences; the first ten."""
    found = []
    for each in errors[:10]:
        place = [str(part).replace("~", "~0").replace("/", "~1") for part in each["loc"]]
        pointer = "/" + "/".join(place[1:]) if place[:1] == ["body"] else ".".join(place)
        found.append({"pointer": printable(pointer)[:300], "detail": printable(str(each["msg"]))[:300]})
    return found
