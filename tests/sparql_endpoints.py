"""A SPARQL endpoint in a thread: pyoxigraph's engine behind HTTP, with the habits of public endpoints."""

from __future__ import annotations

import base64
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyoxigraph


@dataclass
class Habits:
    """What an endpoint does beyond answering.

    ``most`` rows are given to any question; the first ``busy`` requests are refused with 503; ``password`` is asked
    for; ``hidden`` rows at the end of every page are lost; ``text`` is said instead of an answer.
    """

    most: int | None = None
    busy: int = 0
    password: str | None = None
    hidden: int = 0
    text: str | None = None
    asked: list[str] = field(default_factory=list)


@contextmanager
def endpoint(store: pyoxigraph.Store, habits: Habits) -> Iterator[str]:
    """The address of an endpoint that answers until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            if habits.busy > 0:
                habits.busy -= 1
                return self.say(503, b"busy", {"Retry-After": "2"})
            if habits.password is not None and not self.signed():
                return self.say(401, b"who are you?")
            if habits.text is not None:
                return self.say(200, habits.text.encode())
            if "update" in form:
                store.update(form["update"][0])
                return self.say(204, b"")
            habits.asked.append(form["query"][0])
            try:
                rows = store.query(form["query"][0])
            except SyntaxError as error:
                return self.say(400, str(error).encode())
            return self.say(200, self.cut(rows))

        def cut(self, rows: Any) -> bytes:
            import json

            whole = json.loads(rows.serialize(format=pyoxigraph.QueryResultsFormat.JSON))
            kept = whole["results"]["bindings"][: habits.most]
            if habits.hidden and len(kept) > habits.hidden and "s" in whole["head"]["vars"]:
                kept = kept[habits.hidden :]
            whole["results"]["bindings"] = kept
            return json.dumps(whole).encode()

        def signed(self) -> bool:
            scheme, _, given = self.headers.get("authorization", "").partition(" ")
            return scheme == "Basic" and base64.b64decode(given).decode() == f"someone:{habits.password}"

        def say(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sparql"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
