"""Downloads (S14): https, known hosts, public addresses at connect time, rechecked redirects, pinned content."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tuckerkg import download as module
from tuckerkg.download import DownloadError, Policy, Remote, download, is_public

BODY = b"head\trelation\ttail\n" * 1_000
SHA = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    asked: list[str]
    replies: dict[str, tuple[int, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, headers, body = self.server.replies[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    running.asked = []
    running.replies = {"/file": (200, {"Content-Length": str(len(BODY))}, BODY)}
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def policy(server: Server, **changes: object) -> Policy:
    settings: dict[str, object] = {
        "hosts": frozenset({"files.test"}),
        "ports": frozenset({server.server_port}),
        "resolver": lambda host, port: ["127.0.0.1"],
        "allow_loopback": True,
        "tls": None,
        "timeout": 5.0,
        **changes,
    }
    return Policy(**settings)  # type: ignore[arg-type]


def remote(server: Server, path: str = "/file", sha256: str = SHA, size: int = len(BODY)) -> Remote:
    return Remote(f"https://files.test:{server.server_port}{path}", sha256, size)


def refused(tmp_path: Path, wanted: Remote, rules: Policy) -> str:
    with pytest.raises(DownloadError) as caught:
        download(wanted, tmp_path / "cache" / "file", rules)
    assert list((tmp_path / "cache").iterdir()) == []
    return str(caught.value)


def test_a_pinned_file_arrives_whole_with_progress(tmp_path: Path, server: Server) -> None:
    seen: list[tuple[int, int | None]] = []
    download(remote(server), tmp_path / "new" / "file", policy(server), lambda *step: seen.append(step))
    assert (tmp_path / "new" / "file").read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_s14_other_content_is_refused_and_nothing_stays(tmp_path: Path, server: Server) -> None:
    assert "not the file this version knows" in refused(tmp_path, remote(server, sha256="0" * 64), policy(server))


def test_s14_an_old_file_survives_a_failed_download(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(DownloadError):
        download(remote(server, sha256="0" * 64), tmp_path / "file", policy(server))
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize(
    "url",
    [
        "http://files.test/file",
        "ftp://files.test/file",
        "file:///etc/passwd",
        "https://other.test/file",
        "https://files.test.other.test/file",
        "https://files.test:8443/file",
        "https://me:secret@files.test/file",
        "https:///file",
    ],
)
def test_s14_only_https_on_pinned_hosts(tmp_path: Path, server: Server, url: str) -> None:
    rules = policy(server, ports=frozenset({443, server.server_port}))
    message = refused(tmp_path, Remote(url, SHA, len(BODY)), rules)
    assert "refused to fetch" in message
    assert server.asked == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
     "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1"],
)  # fmt: skip
def test_s14_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(DownloadError, match="not a public address"):
        Policy().check_address(address)


@pytest.mark.parametrize("address", ["185.199.108.133", "8.8.8.8", "2606:50c0:8000::154", "::ffff:8.8.8.8"])
def test_s14_public_addresses_are_public(address: str) -> None:
    assert is_public(address)
    Policy().check_address(address)


def test_s14_a_known_host_that_resolves_to_loopback_is_not_contacted(tmp_path: Path, server: Server) -> None:
    message = refused(tmp_path, remote(server), policy(server, allow_loopback=False))
    assert "refused to connect to 127.0.0.1" in message
    assert server.asked == []


def test_s14_one_private_address_among_public_ones_is_enough_to_refuse(tmp_path: Path, server: Server) -> None:
    rules = policy(server, resolver=lambda host, port: ["8.8.8.8", "10.0.0.1"])
    assert "10.0.0.1" in refused(tmp_path, remote(server), rules)


def test_s14_the_address_connected_to_is_checked_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = module.socket.create_connection
    here = ("127.0.0.1", server.server_port)
    monkeypatch.setattr(module.socket, "create_connection", lambda address, timeout: connect(here, timeout))
    rules = policy(server, allow_loopback=False, resolver=lambda host, port: ["8.8.8.8"])
    assert "refused to connect to 127.0.0.1" in refused(tmp_path, remote(server), rules)
    assert server.asked == []


def test_s14_redirects_are_followed_within_the_rules(tmp_path: Path, server: Server) -> None:
    server.replies["/start"] = (302, {"Location": "/file", "Content-Length": "0"}, b"")
    download(remote(server, "/start"), tmp_path / "file", policy(server))
    assert server.asked == ["/start", "/file"]


@pytest.mark.parametrize(
    "target", ["http://files.test/file", "https://other.test/file", "https://127.0.0.1/file", "file:///etc/passwd"]
)
def test_s14_redirects_are_checked_again(tmp_path: Path, server: Server, target: str) -> None:
    server.replies["/start"] = (301, {"Location": target, "Content-Length": "0"}, b"")
    assert "refused to fetch" in refused(tmp_path, remote(server, "/start"), policy(server))
    assert server.asked == ["/start"]


def test_s14_endless_redirects_end(tmp_path: Path, server: Server) -> None:
    server.replies["/loop"] = (307, {"Location": "/loop", "Content-Length": "0"}, b"")
    assert "more than 3 redirects" in refused(tmp_path, remote(server, "/loop"), policy(server))
    assert len(server.asked) == 4


def test_s14_more_bytes_than_pinned_are_not_taken(tmp_path: Path, server: Server) -> None:
    server.replies["/file"] = (200, {}, BODY * 100)
    assert "more than the" in refused(tmp_path, remote(server), policy(server))
    assert "more than the 10 bytes" in refused(tmp_path, remote(server), policy(server, max_bytes=10))


def test_errors_and_cut_connections_are_told(tmp_path: Path, server: Server) -> None:
    server.replies["/gone"] = (404, {"Content-Length": "0"}, b"")
    assert "404" in refused(tmp_path, remote(server, "/gone"), policy(server))
    server.replies["/cut"] = (200, {"Content-Length": str(len(BODY))}, BODY[:100])
    assert f"ended {len(BODY) - 100:,} bytes early" in refused(tmp_path, remote(server, "/cut"), policy(server))
    server.replies["/gz"] = (200, {"Content-Encoding": "gzip", "Content-Length": "1"}, b"x")
    assert "compressed" in refused(tmp_path, remote(server, "/gz"), policy(server))


def test_s14_tls_is_the_default_and_a_server_without_it_is_refused(tmp_path: Path, server: Server) -> None:
    rules = policy(server, tls=Policy.tls)
    assert "could not fetch" in refused(tmp_path, remote(server), rules)
    assert server.asked == []


def test_an_unknown_host_name_is_told(tmp_path: Path, server: Server) -> None:
    def nowhere(host: str, port: int) -> list[str]:
        raise module.socket.gaierror(-2, "Name or service not known")

    assert "Name or service not known" in refused(tmp_path, remote(server), policy(server, resolver=nowhere))
