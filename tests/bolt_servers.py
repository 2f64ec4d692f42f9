"""A server that speaks Neo4j's protocol, Bolt 4.4, and nothing else: it knows a few queries by heart.

It stands in for a database, which cannot be installed where these tests run. The driver, its encoding and the network
are real; what Cypher means is not tested.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from neo4j._codec.packstream.v1 import PackableBuffer, Packer, UnpackableBuffer, Unpacker

HELLO, GOODBYE, RESET, RUN, BEGIN, COMMIT, ROLLBACK, DISCARD, PULL = (
    0x01,
    0x02,
    0x0F,
    0x10,
    0x11,
    0x12,
    0x13,
    0x2F,
    0x3F,
)
SUCCESS, RECORD, FAILURE = b"\x70", b"\x71", b"\x7f"
Answer = tuple[list[str], list[list[Any]]]
"""Names of columns, and rows."""


@dataclass
class Conversation:
    """What was asked, and how to answer: ``answer(query, parameters)``; an exception's text is a failure."""

    answer: Callable[[str, dict[str, Any]], Answer]
    password: str | None = None
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@contextmanager
def bolt_server(conversation: Conversation) -> Iterator[str]:
    """The address of a server that answers until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_Client(connection, conversation).talk, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"bolt://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()


class _Client:
    def __init__(self, connection: socket.socket, conversation: Conversation) -> None:
        self.connection, self.conversation = connection, conversation
        self.rows: list[list[Any]] = []

    def talk(self) -> None:
        with self.connection:
            try:
                self._exactly(20)  # the protocol's number, and four versions that the client knows
                self.connection.sendall(b"\x00\x00\x04\x04")
                while self._answer(*self._message()):
                    pass
            except (OSError, EOFError):
                return

    def _answer(self, tag: int, fields: list[Any]) -> bool:
        if tag == GOODBYE:
            return False
        if tag == HELLO:
            if self.conversation.password not in (None, fields[0].get("credentials")):
                self._say(
                    FAILURE, {"code": "Neo.ClientError.Security.Unauthorized", "message": "authentication failure"}
                )
                return False
            self._say(SUCCESS, {"server": "Neo4j/4.4.0", "connection_id": "one"})
        elif tag == RUN:
            self.conversation.asked.append((fields[0], fields[1]))
            try:
                names, self.rows = self.conversation.answer(fields[0], fields[1])
            except ValueError as error:
                self._say(FAILURE, {"code": "Neo.ClientError.Statement.SyntaxError", "message": str(error)})
                return True
            self._say(SUCCESS, {"fields": names})
        elif tag in (PULL, DISCARD):
            count = fields[0].get("n", -1)
            part, self.rows = (self.rows, []) if count < 0 else (self.rows[:count], self.rows[count:])
            for row in part if tag == PULL else []:
                self._say(RECORD, row)
            self._say(SUCCESS, {"has_more": True} if self.rows else {"type": "r", "db": "neo4j"})
        else:
            self._say(SUCCESS, {})
        return True

    def _message(self) -> tuple[int, list[Any]]:
        content = b""
        while True:
            (size,) = struct.unpack(">H", self._exactly(2))
            if size == 0 and content:
                break
            content += self._exactly(size)
        size, tag = content[0] & 0x0F, content[1]
        unpacker = Unpacker(UnpackableBuffer(content[2:]))
        return tag, [unpacker.unpack() for _ in range(size)]

    def _say(self, tag: bytes, value: Any) -> None:
        buffer = PackableBuffer()
        Packer(buffer).pack_struct(tag, [value])
        content = bytes(buffer.data)
        self.connection.sendall(b"".join(struct.pack(">H", len(part)) + part for part in _parts(content)) + b"\x00\x00")

    def _exactly(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            part = self.connection.recv(count - len(content))
            if not part:
                raise EOFError
            content += part
        return content


def _parts(content: bytes) -> Iterator[bytes]:
    for first in range(0, len(content), 65_535):
        yield content[first : first + 65_535]
