"""Downloads (S14): https, known hosts, rechecked redirects, pinned content, one message per failure."""

from __future__ import annotations

import gzip
import hashlib
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tuckerkg.data.download import DownloadError, Remote, download

BODY = b"head\trelation\ttail\n" * 10_000
SHA = hashlib.sha256(BODY).hexdigest()
PINNED = "https://raw.githubusercontent.com/file"

Reply = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    asked: list[str]
    replies: dict[str, Reply | list[Reply]]
    pause = 0.0

    @property
    def host(self) -> str:
        return f"localhost:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that go away."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        time.sleep(self.server.pause)
        reply = self.server.replies[self.path]
        status, headers, body = reply.pop(0) if isinstance(reply, list) else reply
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that has signed itself, with its key."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run([*words.split(), "-keyout", path, "-out", path.with_suffix(".crt")], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start_server(certificate: Path | None) -> Server:
        running = Server(("127.0.0.1", 0), Handler)
        started.append(running)
        running.asked = []
        running.replies = {"/file": whole()}
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            running.socket = context.wrap_socket(running.socket, server_side=True)
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        return running

    yield start_server
    for running in started:
        running.shutdown()
        running.server_close()


@pytest.fixture
def server(start: Callable[..., Server], certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server of https on this machine whose certificate is trusted."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.with_suffix(".crt")))
    return start(certificate)


def whole(body: bytes = BODY) -> Reply:
    return 200, {"Content-Length": str(len(body))}, body


def remote(server: Server, path: str = "/file", sha256: str = SHA, size: int = len(BODY)) -> Remote:
    return Remote(f"https://{server.host}{path}", sha256, size)


def fetch(wanted: Remote, folder: Path, server: Server, **options: object) -> None:
    settings: dict[str, object] = {"hosts": frozenset({server.host}), "timeout": 5.0, "retries": 0, **options}
    download({"file": wanted}, folder, **settings)  # type: ignore[arg-type]


def refused(folder: Path, wanted: Remote, server: Server, **options: object) -> str:
    """The only line of the error; nothing is left of the file."""
    with pytest.raises(DownloadError) as caught:
        fetch(wanted, folder / "cache", server, **options)
    assert not (folder / "cache").exists() or list((folder / "cache").iterdir()) == []
    message = str(caught.value)
    assert wanted.url in message
    assert "\n" not in message
    assert "; " in message  # a remedy follows the cause
    return message


def test_a_pinned_file_arrives_whole_with_progress(tmp_path: Path, server: Server) -> None:
    seen: list[tuple[int, int]] = []
    fetch(remote(server), tmp_path / "new", server, progress=lambda *step: seen.append(step))
    assert (tmp_path / "new" / "file").read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_several_files_come_in_their_order_and_nothing_is_printed(
    tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.replies["/other"] = whole(b"other")
    others = Remote(f"https://{server.host}/other", hashlib.sha256(b"other").hexdigest(), 5)
    found = download({"b": remote(server), "a": others}, tmp_path, hosts=frozenset({server.host}))
    assert found == [tmp_path / "b", tmp_path / "a"]
    assert server.asked == ["/file", "/other"]
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path, server: Server) -> None:
    fetch(remote(server), tmp_path, server)
    fetch(remote(server), tmp_path, server)
    assert server.asked == ["/file"]


def test_s14_other_content_is_refused_and_nothing_stays(tmp_path: Path, server: Server) -> None:
    assert "not the file this version knows" in refused(tmp_path, remote(server, sha256="0" * 64), server)


def test_s14_an_old_file_survives_a_failed_download(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(DownloadError):
        fetch(remote(server, sha256="0" * 64), tmp_path, server)
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


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
        "https://files.test@other.test/file",
        "https://files.test",
        "https:///file",
    ],
)
def test_s14_only_https_on_pinned_hosts(tmp_path: Path, server: Server, url: str) -> None:
    message = refused(tmp_path, Remote(url, SHA, len(BODY)), server, hosts=frozenset({"files.test", server.host}))
    assert "refused to fetch" in message
    assert server.asked == []


def connect_to(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name lead to ``server``."""
    resolve = socket.getaddrinfo
    here = ("127.0.0.1", server.server_port)
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, *rest, **more: resolve(*here, *rest, **more))


def test_s14_a_known_host_that_resolves_to_loopback_is_not_contacted(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request reaches it, for it has no certificate of that host."""
    connect_to(server, monkeypatch)
    message = refused(tmp_path, Remote(PINNED, SHA, len(BODY)), server, hosts=frozenset({"raw.githubusercontent.com"}))
    assert "certificate" in message
    assert server.asked == []


def test_s14_the_address_connected_to_is_checked_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its certificate, which somebody who is trusted must have signed."""
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    assert "certificate" in refused(tmp_path, remote(server), server)
    assert server.asked == []


def test_s14_redirects_are_followed_within_the_rules(tmp_path: Path, server: Server) -> None:
    server.replies["/start"] = (302, {"Location": "/file", "Content-Length": "0"}, b"")
    fetch(remote(server, "/start"), tmp_path, server)
    assert server.asked == ["/start", "/file"]


@pytest.mark.parametrize(
    "target",
    [
        "http://files.test/file",
        "http://{host}/file",
        "https://other.test/file",
        "//other.test/file",
        "https://127.0.0.1/file",
        "https://me@{host}/file",
        "https://[/file",
        "file:///etc/passwd",
    ],
)
def test_s14_redirects_are_checked_again(tmp_path: Path, server: Server, target: str) -> None:
    location = target.format(host=server.host)
    server.replies["/start"] = (301, {"Location": location, "Content-Length": "0"}, b"")
    message = refused(tmp_path, remote(server, "/start"), server, hosts=frozenset({"files.test", server.host}))
    assert "refused to fetch" in message
    assert server.asked == ["/start"]


def test_s14_endless_redirects_end(tmp_path: Path, server: Server) -> None:
    server.replies["/loop"] = (307, {"Location": "/loop", "Content-Length": "0"}, b"")
    assert "redirects without end" in refused(tmp_path, remote(server, "/loop"), server)
    assert len(server.asked) < 50


def test_s14_more_bytes_than_pinned_are_not_taken(tmp_path: Path, server: Server) -> None:
    server.replies["/file"] = (200, {}, BODY * 100)
    assert "more than the" in refused(tmp_path, remote(server), server, retries=2)
    assert "more than the 10 bytes" in refused(tmp_path, remote(server, size=10), server)
    assert len(server.asked) == 2  # whoever sends too much once is not asked again


def test_errors_and_cut_connections_are_told(tmp_path: Path, server: Server) -> None:
    server.replies["/gone"] = (404, {"Content-Length": "0"}, b"")
    assert "404" in refused(tmp_path, remote(server, "/gone"), server)
    early = f"ended {len(BODY) - 100:,} bytes early"
    server.replies["/cut"] = (200, {"Content-Length": str(len(BODY))}, BODY[:100])
    assert early in refused(tmp_path, remote(server, "/cut"), server)
    server.replies["/cut"] = (200, {}, BODY[:100])
    assert early in refused(tmp_path, remote(server, "/cut"), server)
    server.replies["/cut"] = (200, {"Transfer-Encoding": "chunked"}, b"64\r\n" + BODY[:100] + b"\r\n")
    assert early in refused(tmp_path, remote(server, "/cut"), server)
    server.replies["/gz"] = (200, {"Content-Encoding": "gzip", "Content-Length": "8"}, b"not gzip")
    assert "compressed" in refused(tmp_path, remote(server, "/gz"), server)


def test_a_compressed_answer_counts_as_what_it_inflates_to(tmp_path: Path, server: Server) -> None:
    kind = {"Content-Encoding": "gzip"}
    server.replies["/file"] = (200, kind, gzip.compress(BODY))
    fetch(remote(server), tmp_path, server)
    assert (tmp_path / "file").read_bytes() == BODY
    server.replies["/bomb"] = (200, kind, gzip.compress(bytes(50 << 20)))
    assert "more than the" in refused(tmp_path, remote(server, "/bomb"), server)


def test_a_failed_attempt_is_repeated(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    busy = (503, {"Content-Length": "0"}, b"")
    cut = (200, {"Content-Length": str(len(BODY))}, BODY[:100])
    server.replies["/file"] = [busy, cut, whole()]
    fetch(remote(server), tmp_path, server, retries=2)
    assert (tmp_path / "file").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    server.replies["/file"] = [busy] * 3
    assert "503" in refused(tmp_path, remote(server), server, retries=2)
    assert len(server.asked) == 6


def test_a_server_that_says_nothing_is_left(tmp_path: Path, server: Server) -> None:
    server.pause = 1.0
    message = refused(tmp_path, remote(server), server, timeout=0.1)
    assert "timed out" in message
    assert "check the network" in message


def test_s14_tls_is_the_default_and_a_server_without_it_is_refused(
    tmp_path: Path, server: Server, start: Callable[..., Server]
) -> None:
    plain = start(None)
    assert "could not fetch" in refused(tmp_path, remote(plain), plain)
    assert plain.asked == []


def test_an_unknown_host_name_is_told(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    message = refused(tmp_path, remote(server), server)
    assert "Name or service not known" in message
    assert "check the network" in message


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path, server: Server) -> None:
    (tmp_path / "full").write_text("")
    with pytest.raises(DownloadError, match="check the space and the permissions of the disk"):
        fetch(remote(server), tmp_path / "full", server)


def test_nothing_of_it_is_imported_before_a_download() -> None:
    script = (
        "import sys, tuckerkg, tuckerkg.cli, tuckerkg.data.load; "
        "print([name for name in ('pooch', 'requests', 'urllib3') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "[]"
    script = (
        "import sys; from tuckerkg.__main__ import main\n"
        "sys.argv = ['tuckerkg', '--help']\n"
        "try: main()\n"
        "except SystemExit: print([name for name in ('pooch', 'requests') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[-1] == "[]"
