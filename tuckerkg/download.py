"""Fetch one pinned file: https only, known hosts, public addresses, known SHA-256, written whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import socket
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urljoin, urlsplit

from tuckerkg.errors import TuckerkgError

HOSTS = frozenset({"raw.githubusercontent.com"})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
CHUNK = 1 << 16
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Progress = Callable[[int, int | None], None]
Resolver = Callable[[str, int], list[str]]


class DownloadError(TuckerkgError):
    """A file could not be fetched, or is not the file that was pinned."""


@dataclass(frozen=True)
class Remote:
    """A file on the net, pinned by its SHA-256."""

    url: str
    sha256: str
    size: int


def resolve(host: str, port: int) -> list[str]:
    """The addresses of ``host``, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Policy:
    """What may be contacted. Tests pass their own resolver, ports and transport; nothing is switched globally."""

    hosts: frozenset[str] = HOSTS
    ports: frozenset[int] = frozenset({443})
    max_bytes: int = 64 << 20
    max_redirects: int = 3
    timeout: float = 30.0
    resolver: Resolver = resolve
    allow_loopback: bool = False
    tls: Callable[[], ssl.SSLContext] | None = ssl.create_default_context

    def check_url(self, url: str) -> SplitResult:
        """Refuse a URL that is not https on a known host and port."""
        parts = urlsplit(url)
        if parts.scheme != "https":
            raise DownloadError(f"refused to fetch {url}: only https is used")
        if parts.hostname not in self.hosts or (parts.port or 443) not in self.ports:
            raise DownloadError(f"refused to fetch {url}: the host is not one of {', '.join(sorted(self.hosts))}")
        if parts.username is not None or parts.password is not None:
            raise DownloadError("refused to fetch a URL that holds a user name or password")
        return parts

    def check_address(self, address: str) -> None:
        """Refuse an address that is not on the public internet, however it is written."""
        if not is_public(address) and not (self.allow_loopback and ipaddress.ip_address(address).is_loopback):
            raise DownloadError(f"refused to connect to {address}: it is not a public address")


def is_public(address: str) -> bool:
    """Whether ``address`` is on the public internet, also looking inside IPv6 forms that carry an IPv4 address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inner: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = [parsed]
    if isinstance(parsed, ipaddress.IPv6Address):
        inner += [part for part in (parsed.ipv4_mapped, parsed.sixtofour) if part is not None]
        inner += list(parsed.teredo or ())
        if parsed in NAT64:
            inner.append(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF))
        if parsed.ipv4_mapped is not None:
            inner.remove(parsed)  # the mapped form itself counts as reserved in some Python versions
    return all(part.is_global and not part.is_multicast for part in inner)


class _Connection(http.client.HTTPConnection):
    """Connects to an address that was checked, and checks again which address it is connected to."""

    def __init__(self, host: str, port: int, policy: Policy) -> None:
        super().__init__(host, port, timeout=policy.timeout)
        self.policy = policy

    def connect(self) -> None:
        addresses = self.policy.resolver(self.host, self.port)
        for address in addresses:
            self.policy.check_address(address)
        plain = self._first_reachable(addresses)
        try:
            self.policy.check_address(plain.getpeername()[0])
            self.sock = self._wrap(plain)
        except BaseException:
            plain.close()
            raise

    def _first_reachable(self, addresses: list[str]) -> socket.socket:
        last = OSError(f"{self.host} has no address")
        for address in addresses:
            try:
                return socket.create_connection((address, self.port), self.policy.timeout)
            except OSError as error:
                last = error
        raise last

    def _wrap(self, plain: socket.socket) -> socket.socket:
        if self.policy.tls is None:
            return plain
        return self.policy.tls().wrap_socket(plain, server_hostname=self.host)


def download(remote: Remote, target: Path, policy: Policy | None = None, progress: Progress | None = None) -> None:
    """Fetch ``remote`` to ``target``, which appears only once complete and verified; raises DownloadError."""
    policy = policy or Policy()
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            found = _fetch(remote, handle.write, policy, progress)
            if found != remote.sha256:
                raise DownloadError(
                    f"{remote.url} has SHA-256 {found}, expected {remote.sha256}: not the file this version knows"
                )
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).replace(target)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"could not fetch {remote.url}: {error}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _fetch(remote: Remote, write: Callable[[bytes], object], policy: Policy, progress: Progress | None) -> str:
    url = remote.url
    for _ in range(policy.max_redirects + 1):
        parts = policy.check_url(url)
        connection = _Connection(str(parts.hostname), parts.port or 443, policy)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers={"User-Agent": "tuckerkg", "Accept-Encoding": "identity"})
            response = connection.getresponse()
            if response.status in REDIRECTS:
                url = urljoin(url, response.getheader("Location") or "")
                continue
            if response.status != http.client.OK:
                raise DownloadError(f"could not fetch {url}: the server answered {response.status} {response.reason}")
            return _receive(response, write, min(policy.max_bytes, remote.size), progress)
        finally:
            connection.close()
    raise DownloadError(f"could not fetch {remote.url}: more than {policy.max_redirects} redirects")


def _receive(
    response: http.client.HTTPResponse, write: Callable[[bytes], object], limit: int, progress: Progress | None
) -> str:
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise DownloadError("the server sent compressed data that was not asked for")
    digest = hashlib.sha256()
    received = 0
    while chunk := response.read(CHUNK):
        received += len(chunk)
        if received > limit:
            raise DownloadError(f"the server sent more than the {limit:,} bytes expected")
        digest.update(chunk)
        write(chunk)
        if progress is not None:
            progress(received, response.length + received if response.length is not None else None)
    if response.length:
        raise DownloadError(f"the connection ended {response.length:,} bytes early; try again")
    return digest.hexdigest()
