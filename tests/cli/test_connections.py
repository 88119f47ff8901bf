"""Ways to a daemon: a unix socket, and HTTPS with a CA of one's own."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path

import pytest

from cli.client import Client, parse_address
from cli.exit_codes import CliError, ExitCode
from controllerd.status.schema.cluster import TopicList
from tests.cli.documents import Daemon, handler_of


@contextmanager
def on_socket(daemon: Daemon, path: Path) -> Iterator[str]:
    """The daemon on a unix socket."""

    class UnixServer(HTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(str(path))
            self.server_name, self.server_port = "localhost", 0

        def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
            connection, _ = self.socket.accept()
            return connection, ("local", 0)

    server = UnixServer(("", 0), handler_of(daemon))
    yield from _served(server, f"unix://{path}")


@contextmanager
def over_tls(daemon: Daemon, certificate: Path) -> Iterator[str]:
    """The daemon behind TLS."""
    server = HTTPServer(("127.0.0.1", 0), handler_of(daemon))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    yield from _served(server, f"https://127.0.0.1:{server.server_port}")


def _served(server: HTTPServer, url: str) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate of its own for 127.0.0.1, in one file."""
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=127.0.0.1"
    named = "-addext subjectAltName=IP:127.0.0.1"
    where = ["-keyout", str(file), "-out", f"{file}.c"]
    subprocess.run(["openssl", *made.split(), *named.split(), *where], check=True, capture_output=True)
    with file.open("a") as both:
        both.write(Path(f"{file}.c").read_text())
    return file


def test_a_unix_socket_is_asked(tmp_path: Path) -> None:
    with on_socket(Daemon(), tmp_path / "s") as url:
        assert Client(url, 5.0).get("/v1/topics", TopicList).content.total == 1


def test_a_missing_socket_is_an_unreachable_daemon(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="no daemon answers") as refused:
        Client(f"unix://{tmp_path}/none", 5.0).status()

    assert refused.value.code is ExitCode.UNREACHABLE


def test_a_daemon_with_a_certificate_of_our_ca_is_trusted(certificate: Path) -> None:
    with over_tls(Daemon(), certificate) as url:
        assert Client(url, 5.0, ca_file=str(certificate)).get("/v1/topics", TopicList).content.total == 1


def test_a_daemon_with_a_self_signed_certificate_is_not_trusted(certificate: Path) -> None:
    with over_tls(Daemon(), certificate) as url, pytest.raises(CliError, match="not trusted") as refused:
        Client(url, 5.0).status()

    assert refused.value.code is ExitCode.UNREACHABLE
    assert "ca_file" in str(refused.value)


def test_an_invalid_ca_file_is_bad_configuration(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="cannot be used") as refused:
        Client("https://127.0.0.1:1", 5.0, ca_file=str(tmp_path / "none")).status()

    assert refused.value.code is ExitCode.BAD_CONFIG


def test_addresses_keep_their_prefix() -> None:
    assert parse_address("https://h/ctl/").target("/v1/status") == "/ctl/v1/status"
    assert parse_address("https://h/ctl/").port == 443
