"""How much one client may ask of the service; every limit is a setting."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tuckerkg.errors import TuckerkgError, did_you_mean


@dataclass(frozen=True)
class Limits:
    """What one client may ask, how much at once, and how long it may take.

    Attributes:
        head_bytes: of a request's head.
        target_bytes: of its path and query.
        body_bytes: of a body of JSON.
        upload_bytes: of a file that is sent to be trained on.
        receive_seconds: for a body to arrive; an upload has ten times as long.
        write_seconds: for a client to read 48 kB of its answer; who does not is cut off.
        compute_seconds: from a question's arrival to its answer.
        in_flight: requests at work in all.
        request_cost: seconds of computing, by estimate, that one request may take.
        budget: seconds of computing that a client may use at once, and
        budget_per_second: how fast they come back.
        small_cost: requests up to so many seconds are answered at once, together with others like them.
        waiting: large requests of one client that may wait.
        large_at_once: large requests that are under way, in turns.
        answers: of one request, over all of its questions.
        held_bytes: of answers that clients have not read yet, for one client; for all of them three times as many.
        jobs: of one client that may wait or work.
        train_minutes: of one training.
    """

    head_bytes: int = 16_384
    target_bytes: int = 16_384
    body_bytes: int = 1 << 20
    upload_bytes: int = 64 << 20
    receive_seconds: float = 10.0
    write_seconds: float = 10.0
    compute_seconds: float = 60.0
    in_flight: int = 256
    request_cost: float = 30.0
    budget: float = 120.0
    budget_per_second: float = 1.0
    small_cost: float = 0.1
    waiting: int = 16
    large_at_once: int = 4
    answers: int = 20_000
    held_bytes: int = 12 << 20
    jobs: int = 4
    train_minutes: float = 60.0


def read_limits(path: Path) -> Limits:
    """Limits out of a TOML file with a value for some of them.

    Raises:
        TuckerkgError: the file cannot be read, or names something else.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TuckerkgError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TuckerkgError(f"{path}: is not TOML: {error}") from None
    return with_limits(Limits(), values, str(path))


def with_limits(limits: Limits, values: dict[str, object], source: str) -> Limits:
    """Some limits replaced.

    Raises:
        TuckerkgError: one is unknown, or no number above 0.
    """
    known = {each.name: type(getattr(limits, each.name)) for each in fields(limits)}
    changes: dict[str, float | int] = {}
    for name, value in values.items():
        if name not in known:
            raise TuckerkgError(f"{source}: there is no limit {name!r}.{did_you_mean(name, known)}")
        whole = known[name] is int
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
            kind = "a whole number" if whole else "a number"
            raise TuckerkgError(f"{source}: {name} is {value!r}, expected {kind} above 0")
        changes[name] = value if whole else float(value)
    return replace(limits, **changes)  # type: ignore[arg-type]


def limits_of(path: Path | None, changes: Sequence[str]) -> Limits:
    """Limits out of a file, if there is one, and of ``name=number`` each.

    Raises:
        TuckerkgError: one is none.
    """
    limits = Limits() if path is None else read_limits(path)
    for text in changes:
        name, equals, value = text.partition("=")
        try:
            number = float(value) if "." in value or "e" in value.lower() else int(value)
        except ValueError:
            equals = ""
        if not equals:
            raise TuckerkgError(f"--limit {text}: expected NAME=NUMBER, such as compute_seconds=30")
        limits = with_limits(limits, {name.strip(): number}, "--limit")
    return limits
