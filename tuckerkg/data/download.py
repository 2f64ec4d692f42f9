"""Download pinned files with pooch.

pooch retries, verifies the SHA-256 and puts a file in place only when it is complete. Added here is what it leaves
open: https from known hosts alone, redirects included, no more bytes than the file has, and one message per failure.
That the server is the host it claims to be is proved by its certificate, which requests checks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tuckerkg.errors import TuckerkgError, printable

if TYPE_CHECKING:
    from requests import Response

    from tuckerkg.types import ProgressFunction

HOSTS = frozenset({"raw.githubusercontent.com"})
CHUNK = 1 << 16


class DownloadError(TuckerkgError):
    """A file could not be downloaded, or is not the file that was pinned."""


@dataclass(frozen=True)
class Remote:
    """A file on the net, pinned by its SHA-256."""

    url: str
    sha256: str
    size: int


def download(
    remotes: Mapping[str, Remote],
    folder: Path,
    progress: ProgressFunction | None = None,
    *,
    hosts: frozenset[str] = HOSTS,
    timeout: float = 30.0,
    retries: int = 2,
) -> list[Path]:
    """Download files into ``folder``; those that are there already, with the right SHA-256, stay.

    Args:
        remotes: what to download, by the name that the file gets.
        folder: made where it does not exist.
        progress: called with the bytes received of a file and the bytes it has.
        hosts: the hosts, with a port where it is not 443, that may be asked.
        timeout: seconds without a byte from the server.
        retries: further attempts after a connection that failed or a wrong SHA-256.

    Returns:
        The files, in the order of ``remotes``.

    Raises:
        DownloadError: nothing of the file that failed is left, and an older file of its name is unchanged.
    """
    import pooch  # type: ignore[import-untyped]  # noqa: PLC0415  (it brings requests, which only downloads need)

    registry = pooch.create(
        path=folder,
        base_url="",
        registry={name: f"sha256:{remote.sha256}" for name, remote in remotes.items()},
        urls={name: remote.url for name, remote in remotes.items()},
        retry_if_failed=retries,
    )
    with _quiet(pooch.get_logger()):
        return [_fetch(registry, name, _Transfer(remote, hosts, timeout, progress)) for name, remote in remotes.items()]


def is_allowed(url: str, hosts: frozenset[str] = HOSTS) -> bool:
    """Whether a URL is https on one of ``hosts``; with a user name or another port it is not."""
    return url.startswith(tuple(f"https://{host}/" for host in hosts))


class _Transfer:
    """pooch's HTTP downloader for one file, kept to the allowed hosts and to the size of the file."""

    def __init__(
        self, remote: Remote, hosts: frozenset[str], timeout: float, progress: ProgressFunction | None
    ) -> None:
        self.remote, self.hosts, self.timeout, self.progress = remote, hosts, timeout, progress
        self.received = 0
        self.file: BinaryIO

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Download ``url`` to a temporary file of pooch's; pooch calls this once per attempt."""
        from pooch import HTTPDownloader  # noqa: PLC0415

        self._check_url(url)
        self.received = 0
        with Path(output_file).open("wb") as self.file:
            http = HTTPDownloader(chunk_size=CHUNK, timeout=self.timeout, hooks={"response": self._check_response})
            http(url, self, pooch)

    def _check_response(self, response: Response, *_: Any, **__: Any) -> None:
        """Let a redirect lead to another path, or to an allowed URL; requests calls this for every response."""
        self._check_url(response.url)
        target = response.headers["location"] if response.is_redirect else "/"
        if not target.startswith("/") or target.startswith("//"):
            self._check_url(target)

    def _check_url(self, url: str) -> None:
        if not is_allowed(url, self.hosts):
            start = "" if url == self.remote.url else f", where {self.remote.url} redirects to"
            raise DownloadError(
                f"refused to fetch {printable(url)}{start}: files come by https from {', '.join(sorted(self.hosts))} "
                "only; check whether a proxy is in the way"
            )

    def write(self, chunk: bytes) -> None:
        """Take what the server sent, which may be no more than the file has."""
        self.received += len(chunk)
        if self.received > self.remote.size:
            raise DownloadError(
                f"could not fetch {self.remote.url}: the server sent more than the {self.remote.size:,} bytes "
                "expected; try again later"
            )
        self.file.write(chunk)
        if self.progress is not None:
            self.progress(self.received, self.remote.size)

    def flush(self) -> None:
        """Leave flushing to the end: pooch asks for it after every chunk."""


def _fetch(registry: Any, name: str, transfer: _Transfer) -> Path:
    try:
        return Path(registry.fetch(name, downloader=transfer))
    except (OSError, ValueError) as error:  # every exception of requests is an OSError
        raise DownloadError(f"could not fetch {transfer.remote.url}: {_cause(error, transfer)}") from error


def _cause(error: Exception, transfer: _Transfer) -> str:
    """Say in one clause what went wrong, and in another what to do about it."""
    from requests import exceptions  # noqa: PLC0415

    remote, received = transfer.remote, transfer.received
    from_network = isinstance(error, exceptions.RequestException)
    if isinstance(error, exceptions.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code} {error.response.reason}; try again later"
    if isinstance(error, exceptions.TooManyRedirects):
        return "the server redirects without end; try again later"
    if isinstance(error, exceptions.ContentDecodingError):
        return "the server sent compressed data that cannot be read; try again"
    if isinstance(error, OSError) and not from_network:
        return f"{error}; check the space and the permissions of the disk"
    if isinstance(error, exceptions.ChunkedEncodingError) or (
        received < remote.size and (received or not from_network)
    ):
        return f"the connection ended {_bytes_missing(error, transfer):,} bytes early; try again"
    if from_network:
        # The useful words are inside: requests wraps the exception of urllib3, which names its reason.
        inner = error.args[0] if error.args else error
        return f"{getattr(inner, 'reason', inner)}; check the network and HTTPS_PROXY"
    return f"its SHA-256 is not {remote.sha256}, so it is not the file this version knows; try again later"


def _bytes_missing(error: Exception, transfer: _Transfer) -> int:
    """Count what a connection that was cut did not bring; of the last chunk only urllib3 knows how much came."""
    wrapped = error.args[0] if error.args else None
    cut = wrapped.args[-1] if isinstance(wrapped, Exception) and wrapped.args else None
    return int(getattr(cut, "expected", None) or transfer.remote.size - transfer.received)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch's lines about each file off the terminal, where the progress bar is."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
