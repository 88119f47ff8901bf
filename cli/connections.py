"""Ways to a daemon: HTTP, HTTPS with a CA of one's own, and a unix socket."""

import http.client
import socket
import ssl
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from cli.exit_codes import CliError, ExitCode

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Where a daemon answers. ``prefix`` is put before every path."""

    text: str
    scheme: str
    host: str
    port: int
    prefix: str = ""

    def connection(self, timeout_s: float, ca_file: str | None) -> http.client.HTTPConnection:
        """A connection that is opened with the first request. :raises CliError: the CA file cannot be used."""
        if self.scheme == "unix":
            return _UnixConnection(self.prefix, timeout_s)
        if self.scheme == "https":
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=_tls(ca_file))
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)

    def target(self, path: str) -> str:
        """What is asked for in the request line."""
        return path if self.scheme == "unix" else self.prefix + path


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a port."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def parse_address(api: str) -> Address:
    """The address that ``--api`` names. :raises CliError: it is none."""
    text = api.rstrip("/")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # a port that is no number
        url, port = SplitResult("", "", "", "", ""), None
    if url.scheme == "unix" and not url.netloc and url.path.startswith("/"):
        return Address(text, "unix", "", 0, unquote(url.path))
    if url.scheme not in _DEFAULT_PORTS or not url.hostname or port == 0:
        message = f"--api must be like http://127.0.0.1:9191 or unix:///run/controllerd/prod.sock, not {api!r}"
        raise CliError(ExitCode.USAGE, message)
    return Address(text, url.scheme, url.hostname, port or _DEFAULT_PORTS[url.scheme], url.path)


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        message = f"the CA certificates in {ca_file} cannot be used: {error.strerror or error}"
        raise CliError(ExitCode.BAD_CONFIG, message) from None
