"""From a path to checked text: one regular file, plain or gzip, in bounded memory, with every bad byte located."""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tuckerkg.errors import InputError, Problem

BLOCK = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
UTF8_MARK = b"\xef\xbb\xbf"
# A ratio says nothing about a file that inflates to less than this: ten equal lines also compress well.
RATIO_FREE_BYTES = 10_000_000


@dataclass(frozen=True)
class Limits:
    """What one input file may cost: bytes per line, bytes in all (after inflating), inflated / compressed."""

    line_bytes: int = 1_000_000
    total_bytes: int = 8 << 30
    ratio: int = 200


@dataclass(frozen=True)
class FileBytes:
    """What one file holds, inflated, read within the limits and hashed; its characters are not checked yet.

    Where it is a block of a larger file, ``before`` counts the bytes in front of it, and ``sha256`` is not known yet.
    """

    shown: str
    sha256: str
    data: bytes
    before: int = 0


@dataclass(frozen=True)
class TextFile:
    """The text of one file with ``\\n`` line ends; ``bad_lines`` maps a line number to the byte problem found in it."""

    shown: str
    sha256: str
    text: str
    notes: tuple[str, ...] = ()
    bad_lines: Mapping[int, Problem] = field(default_factory=dict)
    ends_with_newline: bool = True


def read_text(path: Path, shown: str | None = None, limits: Limits | None = None) -> TextFile:
    """Read ``path`` (gzip if it ends in ``.gz``) and check it byte by byte; raises InputError, never hangs."""
    return decode(read_bytes(path, shown, limits))


def read_bytes(path: Path, shown: str | None = None, limits: Limits | None = None) -> FileBytes:
    """Read ``path`` (gzip if it ends in ``.gz``) within the limits; raises InputError, never hangs."""
    shown = shown or str(path)
    digest = hashlib.sha256()
    data = io.BytesIO()  # unlike a bytearray it hands its bytes over without a copy
    for piece in stream_bytes(path, shown, limits or Limits(), digest):
        data.write(piece)
    return FileBytes(shown, digest.hexdigest(), data.getvalue())


def stream_bytes(path: Path, shown: str, limits: Limits, digest: hashlib._Hash) -> Iterator[bytes]:
    """The bytes of ``path``, inflated, in small pieces; ``digest`` is given those of the file as it is stored."""
    lines = _LineGuard(shown, limits)
    raw = _hashed(open_blocks(path, shown), digest)
    for piece in inflate(_magic_checked(raw, shown), shown, limits) if path.suffix == ".gz" else _not_gzip(raw, shown):
        lines.see(piece)
        yield piece


def decode(file: FileBytes) -> TextFile:
    """The text of a file, with the place of every bad byte; raises InputError when it is not UTF-8 text at all."""
    if not file.before:
        _refuse_utf16(file.data, file.shown)
    text, bad_lines = _text_and_bad_lines(file)
    return TextFile(file.shown, file.sha256, text, notes_on(file), bad_lines, file.data.endswith(b"\n"))


def sound_bytes(file: FileBytes) -> bytes | None:
    """The text of a file as UTF-8 bytes with ``\\n`` line ends, or None when any byte of it is bad."""
    plain = _plain(file.data, _text_start(file))
    return plain if b"\r" not in plain and b"\0" not in plain and _is_utf8(plain) else None


def notes_on(file: FileBytes) -> tuple[str, ...]:
    """What was changed or missing around the lines, in words."""
    data = file.data
    notes = []
    if _text_start(file):
        notes.append("UTF-8 byte order mark removed")
    if b"\r\n" in data:
        notes.append("CRLF line ends read as LF")
    if data and not data.endswith(b"\n"):
        notes.append("no line end after the last line")
    return tuple(notes)


def refuse(shown: str, what: str, line: int | None = None, column: int | None = None) -> NoReturn:
    """Raise the InputError of a single place."""
    raise InputError(Problem(shown, line, column, what))


def open_blocks(path: Path, shown: str) -> Iterator[bytes]:
    """The bytes of a regular file, block by block; a change of the file meanwhile is an error."""
    # Without O_NONBLOCK opening a FIFO would wait for a writer before its kind can be examined.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        _refuse_open(error, path, shown)
    try:
        before = os.fstat(descriptor)
        _require_regular(before.st_mode, shown)
        total = 0
        while block := os.read(descriptor, BLOCK):
            total += len(block)
            yield block
        after = os.fstat(descriptor)
    except OSError as error:
        refuse(shown, f"cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)
    if total != before.st_size or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        refuse(
            shown,
            f"the file changed while it was read ({before.st_size:,} bytes before, {total:,} read, "
            f"{after.st_size:,} after); read it again once nothing writes to it",
        )


def _refuse_open(error: OSError, path: Path, shown: str) -> NoReturn:
    if error.errno == errno.EISDIR or path.is_dir():
        refuse(shown, "is a folder, a file was expected")
    if isinstance(error, FileNotFoundError):
        refuse(shown, "no such file; check the path")
    if isinstance(error, PermissionError):
        refuse(shown, "may not be read by this user; change its permissions")
    refuse(shown, f"cannot be opened: {error.strerror}")


def _require_regular(mode: int, shown: str) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
    }
    refuse(
        shown,
        f"is {kinds.get(stat.S_IFMT(mode), 'not a regular file')}, a regular file was expected; "
        "save the data to a file first",
    )


def inflate(blocks: Iterable[bytes], shown: str, limits: Limits) -> Iterator[bytes]:
    """Inflate a gzip stream (any number of members) in pieces of at most ``BLOCK`` bytes; stops at the limits."""
    engine = zlib.decompressobj(wbits=31)
    compressed = inflated = 0
    try:
        for block in blocks:
            compressed += len(block)
            pending = block
            while pending:
                if engine.eof:
                    if not pending.strip(b"\0"):  # tape-style padding after the last member
                        break
                    engine = zlib.decompressobj(wbits=31)
                piece = engine.decompress(pending, BLOCK)
                pending = engine.unused_data if engine.eof else engine.unconsumed_tail
                inflated += len(piece)
                _check_size(compressed, inflated, shown, limits)
                yield piece
        while not engine.eof and (piece := engine.decompress(b"", BLOCK)):
            inflated += len(piece)
            _check_size(compressed, inflated, shown, limits)
            yield piece
    except zlib.error as error:
        refuse(shown, f"damaged gzip data ({error}); get the file again")
    if not engine.eof:
        refuse(shown, "the gzip data ends early, the file was cut off; get the file again")


def _check_size(compressed: int, inflated: int, shown: str, limits: Limits) -> None:
    if inflated > limits.total_bytes:
        refuse(shown, f"inflates to more than the {limits.total_bytes:,} bytes allowed; split the file")
    if inflated > max(RATIO_FREE_BYTES, limits.ratio * compressed):
        refuse(
            shown,
            f"inflates to more than {limits.ratio} times its size, which looks like a gzip bomb; "
            "if you trust it, inflate it yourself and pass the plain file",
        )


def _hashed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for block in blocks:
        digest.update(block)
        yield block


def _magic_checked(blocks: Iterator[bytes], shown: str) -> Iterator[bytes]:
    first = next(blocks, b"")
    if first and not first.startswith(GZIP_MAGIC):
        refuse(shown, f"is named .gz but begins with the bytes {first[:2].hex(' ')}, gzip begins with 1f 8b; rename it")
    if not first:
        refuse(shown, "is empty: 0 triples, and not a gzip file")
    yield first
    yield from blocks


def _not_gzip(blocks: Iterator[bytes], shown: str) -> Iterator[bytes]:
    first = next(blocks, b"")
    if first.startswith(GZIP_MAGIC):
        refuse(shown, "begins like a gzip file; add .gz to its name")
    yield first
    yield from blocks


class _LineGuard:
    """Watches the stream for a line longer than allowed, so that it is refused before it is held in memory."""

    def __init__(self, shown: str, limits: Limits) -> None:
        self.shown, self.limits = shown, limits
        self.total = self.open_bytes = 0
        self.line = 1

    def see(self, block: bytes) -> None:
        self.total += len(block)
        if self.total > self.limits.total_bytes:
            refuse(self.shown, f"has more than the {self.limits.total_bytes:,} bytes allowed; split the file")
        first = block.find(b"\n")
        self.open_bytes += len(block) if first < 0 else first
        if self.open_bytes > self.limits.line_bytes:
            refuse(
                self.shown,
                f"the line is longer than {self.limits.line_bytes:,} bytes; is this a text file with "
                "one triple per line?",
                self.line,
                1,
            )
        if first >= 0:
            self.line += block.count(b"\n")
            self.open_bytes = len(block) - block.rfind(b"\n") - 1


def _text_start(file: FileBytes) -> int:
    return len(UTF8_MARK) if not file.before and file.data.startswith(UTF8_MARK) else 0


def _plain(data: bytes, start: int) -> bytes:
    """The bytes from ``start`` on with LF line ends; the very same object when there is nothing to change."""
    rest = data[start:] if start else data
    return rest.replace(b"\r\n", b"\n") if b"\r" in rest else rest


def _is_utf8(data: bytes) -> bool:
    """Whether all of it decodes; block by block, because a whole decoded copy can take four times the memory."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), BLOCK):
            decoder.decode(data[start : start + BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _text_and_bad_lines(file: FileBytes) -> tuple[str, dict[int, Problem]]:
    plain = _plain(file.data, _text_start(file))
    if b"\r" not in plain and b"\0" not in plain:
        try:
            return plain.decode("utf-8"), {}
        except UnicodeDecodeError:
            pass
    return _locate_bad_bytes(file)


def _locate_bad_bytes(file: FileBytes) -> tuple[str, dict[int, Problem]]:
    """The slow way, taken only when some byte is bad: line by line, on the original offsets."""
    bad: dict[int, Problem] = {}
    lines = []
    start = _text_start(file)
    offset = file.before + start
    for number, raw in enumerate(file.data[start:].split(b"\n"), 1):
        line = raw.removesuffix(b"\r")
        found = _bad_byte(line, offset)
        if found is not None:
            bad[number] = Problem(file.shown, number, found[0], found[1])
        lines.append(line.decode("utf-8", "backslashreplace"))
        offset += len(raw) + 1
    return "\n".join(lines), bad


def _bad_byte(line: bytes, offset: int) -> tuple[int, str] | None:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8")) + 1
        return column, (
            f"byte 0x{line[error.start]:02x} at byte offset {offset + error.start} is not UTF-8; "
            "convert the file to UTF-8"
        )
    if (at := text.find("\0")) >= 0:
        return at + 1, "NUL byte found, text was expected; remove it"
    if (at := text.find("\r")) >= 0:
        return at + 1, "carriage return inside the line, lines must end in LF or CRLF; convert the line ends"
    return None


def _refuse_utf16(data: bytes, shown: str) -> None:
    sample = data[:2048]
    halves = (sample[0::2], sample[1::2])
    # ASCII text in UTF-16 has a NUL in nearly every second byte and hardly one in the others.
    zeros = sorted(half.count(0) / max(len(half), 1) for half in halves)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or (len(sample) >= 8 and zeros[1] > 0.7 and zeros[0] < 0.1):
        refuse(shown, "looks like UTF-16, UTF-8 was expected; convert it, for example: iconv -f UTF-16 -t UTF-8", 1, 1)
