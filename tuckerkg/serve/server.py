"""Run the service: uvicorn with a limit on the time that a request head may take, and an end that loses no request."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.serve import problems
from tuckerkg.serve.access import Access, check_token, checked_origins
from tuckerkg.serve.app import make_app
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.middleware import HEADERS, LOOPBACK, Guard
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue.held import share_memory_among_threads
from tuckerkg.serve.routes.classes import class_app
from tuckerkg.serve.state import SHARED, RunSource, Service
from tuckerkg.tasks.run import ClassRun
from tuckerkg.types import LogFunction, ignore

DRAIN_SECONDS = 10
SEND_BYTES = 1 << 17  # of an answer that the system keeps for a connection
PIECE_BYTES = 1 << 14  # of a request that are parsed at once
PARTING_SECONDS = 0.5  # in which kept connections still get answers, which close them


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose request head does not arrive in time, or whose answer nobody reads.

    uvicorn has a timeout for the pause between two requests only: a client that sends its head byte by byte, or reads
    nothing of a large answer, keeps a connection for ever. It has no setting for that, so its protocol class, which is
    not documented, is extended.
    """

    head_seconds = 10.0
    write_seconds = 10.0
    _clock: asyncio.TimerHandle | None = None
    _write_clock: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Start the clock while more is written than the client reads."""
        super().pause_writing()
        if self._write_clock is None:
            self._write_clock = self.loop.call_later(self.write_seconds, self._unread)

    def resume_writing(self) -> None:
        """Stop it: the client has read."""
        self._stop_writing()
        super().resume_writing()

    def _unread(self) -> None:
        """Cut a client off: by a reset, since an orderly end would wait behind what it does not read."""
        self._write_clock = None
        taken: socket.socket | None = self.transport.get_extra_info("socket")
        if taken is not None:
            with suppress(OSError):
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _stop_writing(self) -> None:
        if self._write_clock is not None:
            self._write_clock.cancel()
            self._write_clock = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or has no end, with a problem as any other, and close the connection."""
        number = secrets.token_hex(8)
        most = self.config.h11_max_incomplete_event_size or 0
        too_long = self.conn.our_state is h11.IDLE and len(self.conn.trailing_data[0]) > most
        refused = Refused(400, f"this is not HTTP/1.1: {msg}")
        if too_long:
            refused = Refused(431, f"the head has no end within {most:,} bytes")
        body = json.dumps(refused.as_dict(number)).encode()
        headers = {
            **HEADERS,
            "content-type": problems.MEDIA_TYPE,
            "content-length": str(len(body)),
            problems.REQUEST_ID: number,
            "connection": "close",
        }
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        reason = HTTPStatus(refused.status).phrase.encode()
        parts = (h11.Response(status_code=refused.status, headers=lines, reason=reason), h11.Data(data=body))
        for part in (*parts, h11.EndOfMessage()):
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE, h11.SEND_BODY, h11.DONE):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection."""
        # Otherwise the system takes megabytes of an answer that nobody reads, and it counts as written.
        taken: socket.socket | None = transport.get_extra_info("socket")
        if taken is not None:
            with suppress(OSError):
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
                # asyncio leaves it out for sockets without a protocol number: 40 ms between head and body.
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Stop the clock once the head is complete; start it for a part of the next one, once."""
        # h11 counts the bytes of a line only while its end is missing: what comes at once is parsed in pieces, so that
        # a chunk's extensions, which nothing else limits, and heads are refused at the same length however they arrive.
        for first in range(0, len(data), PIECE_BYTES):
            if not self.transport.is_closing():
                super().data_received(data[first : first + PIECE_BYTES])
        if self.conn.their_state is h11.IDLE:
            self._start()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock: nothing is left to wait for."""
        self._stop()
        self._stop_writing()
        super().connection_lost(exc)

    def _start(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.head_seconds, self._too_late)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_late(self) -> None:
        self._clock = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class PartingServer(uvicorn.Server):
    """Ends in two steps: each kept connection gets one more answer that closes it, then nothing new is taken.

    uvicorn alone closes idle connections as soon as it shuts down, and with them a request that is on its way; it has
    neither a delay nor a hook before that.
    """

    def __init__(self, config: uvicorn.Config, guard: Guard, service: Service | None) -> None:
        super().__init__(config)
        self.guard, self.service = guard, service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ask clients to close their connections for a moment, then shut down; called after the signal."""
        self.guard.draining = True
        if self.service is not None:
            self.service.draining = True
        if not self.force_exit:
            await asyncio.sleep(PARTING_SECONDS)
        await super().shutdown(sockets)


def check_address(host: str, token: str | None, token_file: Path | None = None) -> None:
    """Refuse an address that others reach without a token, and a short token.

    Raises:
        TuckerkgError: with what to do instead.
    """
    if not is_loopback(host) and not token and token_file is None:
        raise TuckerkgError(
            f"--host {printable(host)} can be reached by others: give a token too, by --token, --token-file or "
            "TUCKERKG_TOKEN, which clients send as Authorization: Bearer TOKEN"
        )
    if token is not None:
        check_token(token)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Door:
    """Where the service listens, and who may come in.

    Attributes:
        host: the address to listen on; another than loopback needs a token.
        port: the port to listen on.
        token: what clients must send as Bearer token; None asks for none.
        token_file: tokens of several clients, with names and roles.
        training: who may decide may train, too.
        names: further Host names that clients use, for instance that of a proxy.
        origins: pages from elsewhere whose scripts may ask.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    token_file: Path | None = None
    training: bool = False
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """For people."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def access(self) -> Access:
        """Who may come in. Raises TuckerkgError."""
        checked_origins(self.origins)
        return Access(self.token, self.token_file, training=self.training)

    def open(self) -> socket.socket:
        """Listen.

        Raises:
            TuckerkgError: the address needs a token, or is taken.
        """
        check_address(self.host, self.token, self.token_file)
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            cause = str(error.strerror).partition(" (")[0]  # Python repeats the address in parentheses
            raise CannotListenError(
                f"cannot listen on {self.host}:{self.port}: {cause}; give another --host or --port"
            ) from error


class CannotListenError(TuckerkgError):
    """The address is taken, or is none of this machine."""


def serve(
    sources: Sequence[RunSource],
    door: Door,
    *,
    listener: socket.socket | None = None,
    late: bool = False,
    on_ready: Callable[[], None] = lambda: None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    log: LogFunction = ignore,
    access_log: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Serve runs until a signal ends it.

    Args:
        sources: the runs; opened in a thread once the service listens.
        door: where it listens.
        listener: a socket that listens there already.
        late: take connections only when the first run is loaded.
        on_ready: called once the first run is loaded.
        limits: how much one client may ask.
        log: called with sentences for the user, and with a line about each request that was refused or failed.
        access_log: called with what happened to every request.

    Returns:
        The exit status: 1 where the address is taken or the first run could not be loaded.

    Raises:
        TuckerkgError: the address needs a token, or the file of tokens is wrong.
    """
    access = door.access()
    try:
        listener = listener or door.open()  # before the run is loaded, which takes a while
    except CannotListenError as error:
        log(str(error))
        return 1
    server: PartingServer | None = None
    failed = False

    def end(error: Exception) -> None:
        nonlocal failed
        failed = True
        log(str(error))
        if server is not None:
            server.should_exit = True

    share_memory_among_threads()
    place = os.environ.get(SHARED)
    service = Service(
        sources,
        access=access,
        limits=limits,
        log=log,
        shared=None if place is None else Path(place),
        late=late,
        on_ready=on_ready,
        on_failure=end,
    )
    hosts, origins = {*LOOPBACK, door.host, *door.names}, checked_origins(door.origins)
    guard = make_app(service, hosts=hosts, origins=origins, log=log, access_log=access_log)
    server = PartingServer(config_of(guard, limits), guard, service)
    server.run([listener])
    return int(failed)


def serve_classes(
    run: ClassRun,
    door: Door,
    *,
    on_ready: Callable[[], None] = lambda: None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    log: LogFunction = ignore,
    access_log: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Serve a run of classes until a signal ends it; arguments and status as for ``serve``."""
    access = door.access()
    try:
        listener = door.open()
    except CannotListenError as error:
        log(str(error))
        return 1
    hosts = {*LOOPBACK, door.host, *door.names}
    origins = checked_origins(door.origins)
    guard = class_app(run, access, hosts=hosts, origins=origins, limits=limits, log=log, access_log=access_log)
    on_ready()
    PartingServer(config_of(guard, limits), guard, None).run([listener])
    return 0


def config_of(guard: Guard, limits: Limits) -> uvicorn.Config:
    """How uvicorn runs an application behind its guard."""
    protocol = type("Protocol", (PatientProtocol,), {"write_seconds": limits.write_seconds})
    return uvicorn.Config(
        cast("Any", guard),
        http=protocol,
        ws="none",
        loop="asyncio",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.head_bytes + limits.target_bytes,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
