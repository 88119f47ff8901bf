"""The certificate of the HTTP endpoint, read anew when it changes."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from controllerd.config.model import HttpConfig
from controllerd.errors import ConfigError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def stamps(self) -> tuple[object, ...]:
        """Something else once one of them was replaced or written. :raises OSError: one of them is not there."""
        files = [self.certificate, self.key, *([self.client_ca] if self.client_ca else [])]
        return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in map(Path.stat, files))


class ServerTls:
    """The context for new connections. Connections that exist keep the one they began with."""

    def __init__(self, files: TlsFiles) -> None:
        """:raises ConfigError: the files cannot be read, or do not go together."""
        self._files: Final = files
        self._context = _context(files)
        self._seen: tuple[object, ...] | None = self._look()

    @classmethod
    def configured(cls, http: HttpConfig) -> "ServerTls | None":
        """What the configuration asks for. :raises ConfigError: it cannot be had."""
        if http.tls_certificate is None or http.tls_key is None:
            return None
        return cls(TlsFiles(http.tls_certificate, http.tls_key, http.tls_client_ca))

    def context(self) -> ssl.SSLContext:
        """For the next connection; of the files as they are now, or as they last were when they can be used."""
        seen = self._look()
        if seen is not None and seen != self._seen:
            self._seen = seen
            try:
                self.reload()
            except ConfigError as error:
                log.error("the new certificate cannot be used", problem=str(error), next="the old one is served on")
        return self._context

    def reload(self) -> None:
        """Read them now. :raises ConfigError: they cannot be used; the old ones are."""
        self._context = _context(self._files)
        self._seen = self._look()
        log.info("certificate read", file=str(self._files.certificate))

    def _look(self) -> tuple[object, ...] | None:
        """None while a file is away: it is being replaced."""
        try:
            return self._files.stamps()
        except OSError:
            return None


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        pair = f"http.tls_certificate {files.certificate} with http.tls_key {files.key}"
        raise ConfigError([f"{pair}: {error}; both must be PEM, readable, and belong together"]) from error
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError([f"http.tls_client_ca {files.client_ca}: {error}; it must be PEM"]) from error
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody can be asked for its password")
