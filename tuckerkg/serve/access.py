"""Who may ask for what: tokens with names and roles, wrong ones, and pages of other origins."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.schemas.service import Role

ROLES: tuple[Role, ...] = get_args(Role)
SHORTEST = 16  # characters of a token
ORIGIN = re.compile(r"https?://(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
FREE_TRIES = 5  # wrong tokens of an address, before it waits for the answer
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds; each is twice as long as the one before
FORGOTTEN = 60.0  # seconds without a wrong token, after which an address begins again
MOST_ADDRESSES, MOST_PAUSES = 10_000, 8
MAKE_ONE = "python -c 'import secrets; print(secrets.token_urlsafe())'"


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        client: whose budget is used: the token's name, else the address.
        name: that of the token; None: who decides is named in the request.
        roles: what is allowed.
    """

    client: str
    name: str | None
    roles: tuple[Role, ...]

    def need(self, role: Role) -> None:
        """Refuse what is not allowed. Raises Refused."""
        if role in self.roles:
            return
        remedy = {
            "read": "a token with that role",
            "decide": "a token with that role",
            "train": "a token with that role, or --allow-training where the service is started",
        }[role]
        raise Refused(403, f"this needs the role {role!r}, which you do not have: it takes {remedy}", "role-missing")


@dataclass(frozen=True)
class Token:
    """A name, what its bearer may do, and the token's SHA-256."""

    name: str | None
    roles: tuple[Role, ...]
    sha256: bytes


class Access:
    """The tokens of a service; those of a file are read again when it changes.

    Args:
        token: one for all, with every role but train.
        file: TOML with ``[[token]]`` tables: name, roles, and token or sha256.
        training: everyone who may decide may train, too.

    Raises:
        TuckerkgError: the file cannot be read, or a token is too short.
    """

    def __init__(self, token: str | None = None, file: Path | None = None, *, training: bool = False) -> None:
        self.file = file
        self.common: tuple[Role, ...] = ROLES if training else ROLES[:2]
        self._fixed = [] if token is None else [Token(None, self.common, _digest(token))]
        self._state: tuple[int, int] | None = None
        self._read: list[Token] = []
        if file is not None:
            self._read = read_tokens(file)
            self._state = _state_of(file)

    @property
    def is_open(self) -> bool:
        """Whether no token is asked for."""
        return not self._fixed and self.file is None

    def tokens(self) -> list[Token]:
        """All that are taken now; while a changed file is damaged those of before count."""
        if self.file is not None and (state := _state_of(self.file)) != self._state:
            self._state = state
            with suppress(TuckerkgError):
                self._read = read_tokens(self.file)
        return [*self._fixed, *self._read]

    def caller(self, credentials: str | None, address: str) -> Caller | None:
        """Who asks from ``address`` with this token; None: it is needed, or wrong."""
        if self.is_open:
            return Caller(address, None, self.common)
        if credentials is None:
            return None
        digest = _digest(credentials)
        found = [token for token in self.tokens() if secrets.compare_digest(token.sha256, digest)]
        if not found:
            return None
        return Caller(found[0].name or address, found[0].name, found[0].roles)


class WrongTokens:
    """How long the answer to a wrong token waits: longer each time, and few at once of one address.

    A right token never waits, so that nobody can keep others out who come from the same address, such as a proxy's.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last
        self._waiting: dict[str, int] = {}

    def begin(self, address: str) -> float | None:
        """One more came: seconds until it is answered, where ``end`` is to follow; None: too many wait already."""
        now = self.clock()
        count, last = self._seen.pop(address, (0, now))
        count = 1 if now - last > FORGOTTEN else count + 1
        self._seen[address] = count, now
        while len(self._seen) > MOST_ADDRESSES:
            self._seen.popitem(last=False)
        if self._waiting.get(address, 0) >= MOST_PAUSES:
            return None
        self._waiting[address] = self._waiting.get(address, 0) + 1
        doublings = min(count - FREE_TRIES - 1, 10)
        return 0.0 if doublings < 0 else min(LONGEST_PAUSE, FIRST_PAUSE * 2**doublings)

    def end(self, address: str) -> None:
        """The wait is over."""
        self._waiting[address] -= 1
        if not self._waiting[address]:
            del self._waiting[address]


def checked_origins(origins: Iterable[str]) -> frozenset[str]:
    """Origins of pages that may ask from elsewhere.

    Raises:
        TuckerkgError: one is no scheme, host and port alone.
    """
    found = frozenset(each.lower().rstrip("/") for each in origins)
    for each in found:
        if not ORIGIN.fullmatch(each):
            raise TuckerkgError(
                f"--allow-origin {printable(each)}: expected a scheme and a host, such as https://notebook.example.org"
            )
    return found


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file.

    Raises:
        TuckerkgError: with the place that is wrong.
    """
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("token", [])
    except OSError as error:
        raise TuckerkgError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TuckerkgError(f"{path}: is not TOML: {error}") from None
    if not isinstance(rows, list) or not rows:
        raise TuckerkgError(f"{path}: holds no [[token]] with name, roles and token (or sha256)")
    tokens = [_token(row, f"{path}: token {number}") for number, row in enumerate(rows, start=1)]
    names = [token.name for token in tokens]
    for name in names:
        if names.count(name) > 2:
            raise TuckerkgError(f"{path}: {printable(str(name))!r} has {names.count(name)} tokens, two are enough")
    return tokens


def _token(row: object, place: str) -> Token:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"].strip():
        raise TuckerkgError(f"{place}: needs a name")
    unknown = sorted(set(row) - {"name", "roles", "token", "sha256"})
    if unknown:
        raise TuckerkgError(f"{place}: {unknown[0]!r} is unknown, expected name, roles, token or sha256")
    roles = row.get("roles", ["read"])
    if not isinstance(roles, list) or not roles or any(role not in ROLES for role in roles):
        raise TuckerkgError(f"{place}: roles are {roles!r}, expected some of {', '.join(ROLES)}")
    if ("token" in row) == ("sha256" in row):
        raise TuckerkgError(f"{place}: needs token or sha256, one of both")
    if "sha256" in row:
        try:
            digest = bytes.fromhex(str(row["sha256"]))
        except ValueError:
            digest = b""
        if len(digest) != 32:
            raise TuckerkgError(f"{place}: sha256 is not the 64 hexadecimal digits of a SHA-256")
    else:
        check_token(str(row["token"]), place)
        digest = _digest(str(row["token"]))
    return Token(row["name"].strip(), tuple(role for role in ROLES if role in {*roles, "read"}), digest)


def check_token(token: str, place: str = "the token") -> None:
    """Refuse a short one. Raises TuckerkgError."""
    if len(token) < SHORTEST:
        raise TuckerkgError(f"{place} has fewer than {SHORTEST} characters: make one by {MAKE_ONE}")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
