"""The HTTP client of controllerctl: one request per call, every failure an exit code and a sentence."""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from uuid import uuid4

import msgspec

from cli.exit_codes import CliError, ExitCode
from controllerd.status.schema.common import Health, Problem, RoleAnswer
from controllerd.status.schema.history import ObservationsResponse
from controllerd.status.schema.status import StatusResponse
from controllerd.status.schema.tasks import ForgetResponse, ResignResponse, TakeoverResponse

if TYPE_CHECKING:
    from cli.settings import CliSettings


_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class ApiAddress(NamedTuple):
    """The address of a daemon. ``prefix`` is put before every path."""

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
        """Return the target of the request line."""
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


def parse_address(api: str) -> ApiAddress:
    """Return the address that ``--api`` names. :raises CliError: it is invalid."""
    text = api.rstrip("/")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # a port that is no number
        url, port = SplitResult("", "", "", "", ""), None
    if url.scheme == "unix" and not url.netloc and url.path.startswith("/"):
        return ApiAddress(text, "unix", "", 0, unquote(url.path))
    if url.scheme not in _DEFAULT_PORTS or not url.hostname or port == 0:
        message = f"--api must be like http://127.0.0.1:9191 or unix:///run/controllerd/prod.sock, not {api!r}"
        raise CliError(ExitCode.USAGE, message)
    return ApiAddress(text, url.scheme, url.hostname, port or _DEFAULT_PORTS[url.scheme], url.path)


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        message = f"the CA certificates in {ca_file} cannot be used: {error.strerror or error}"
        raise CliError(ExitCode.BAD_CONFIG, message) from None


Content = TypeVar("Content")
Query = Mapping[str, str | int | bool | None]
Holder = Literal["any", "broker", "instance"]
"""The holders from which the role may be taken."""

_BY_STATUS: Final[Mapping[int, ExitCode]] = {
    400: ExitCode.USAGE,
    401: ExitCode.FORBIDDEN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.REFUSED,
    410: ExitCode.NOT_FOUND,
    413: ExitCode.USAGE,
    422: ExitCode.USAGE,
    429: ExitCode.UNREACHABLE,
    503: ExitCode.UNREACHABLE,
    504: ExitCode.TIMED_OUT,
}

_MAY_HAPPEN: Final = "; the operation may still happen, see controllerctl status"
_NOTHING_CHANGED: Final = "; nothing was changed"


class ApiAnswer(NamedTuple, Generic[Content]):
    """An answer of the daemon: its bytes, and the decoded content."""

    body: bytes
    content: Content


class ApiRefusal(CliError):
    """The daemon answered, and the answer is an error; ``problem`` is that answer."""

    def __init__(self, problem: Problem) -> None:
        hint = f"; {problem.hint}" if problem.hint else ""
        code = _BY_STATUS.get(problem.status, ExitCode.INTERNAL)
        super().__init__(code, f"{problem.detail} ({problem.code}){hint}{_advice(code)}")
        self.problem: Final = problem


class Client:
    """The client of one daemon."""

    def __init__(
        self,
        api: str,
        timeout_s: float,
        *,
        token: str | None = None,
        ca_file: str | None = None,
        settings: "CliSettings | None" = None,
    ) -> None:
        """``settings`` has the verbosity of the client. :raises CliError: ``api`` is not an address."""
        self._address = parse_address(api)
        self._timeout_s = timeout_s
        self._token = token
        self._ca_file = ca_file
        self._settings = settings

    # -- common requests ----------------------------------------------------------------------------------------------

    def status(self) -> ApiAnswer[StatusResponse]:
        """Read the state of the instance and of its cluster. :raises CliError: there is no answer."""
        return self.get("/v1/status", StatusResponse)

    def observations(self) -> ApiAnswer[ObservationsResponse]:
        """Read the comparisons of an observer. :raises CliError: no answer, or the instance does not observe."""
        return self.get("/v1/observations", ObservationsResponse)

    def takeover(
        self, reason: str, *, remember: bool = False, holder: Holder = "any", dry_run: bool = False
    ) -> ApiAnswer[TakeoverResponse]:
        """Make this instance take the role from a holder of this kind. :raises CliError: it did not.

        With ``remember`` it takes the role from brokers at every later start, too.
        """
        from controllerd.status.schema.verbs import TakeoverRequest

        body = TakeoverRequest(reason=reason, remember=remember, from_=holder)
        return self.post("/v1/takeover", body, TakeoverResponse, {"dryRun": dry_run}, str(uuid4()))

    def resign(self, reason: str, *, dry_run: bool = False) -> ApiAnswer[ResignResponse]:
        """Make this instance give the role away. :raises CliError: it did not."""
        from controllerd.status.schema.verbs import VerbRequest

        return self.post("/v1/resign", VerbRequest(reason=reason), ResignResponse, {"dryRun": dry_run}, str(uuid4()))

    def forget_broker(self, broker: int, reason: str, *, dry_run: bool = False) -> ApiAnswer[ForgetResponse]:
        """Declare that a broker never returns. :raises CliError: the daemon refuses."""
        from controllerd.status.schema.verbs import ForgetRequest

        path, body = f"/v1/brokers/{broker}/forget", ForgetRequest(reason=reason, confirm=broker)
        return self.post(path, body, ForgetResponse, {"dryRun": dry_run}, str(uuid4()))

    def role(self) -> RoleAnswer:
        """Read the role of this instance. :raises CliError: there is no answer."""
        return self._ask("GET", "/controller", RoleAnswer, accepts=http.HTTPStatus.SERVICE_UNAVAILABLE).content

    def health(self) -> Health:
        """Read every check of the daemon's own health. :raises CliError: there is no answer."""
        target = _with_query("/readyz", {"verbose": True})
        return self._ask("GET", target, Health, accepts=http.HTTPStatus.SERVICE_UNAVAILABLE).content

    # -- requests in general -------------------------------------------------------------------------------------------

    def get(self, path: str, kind: type[Content], query: Query | None = None) -> ApiAnswer[Content]:
        """Send a GET request. :raises CliError: there is no answer. :raises ApiRefusal: the answer is an error."""
        return self._ask("GET", _with_query(path, query), kind)

    def post(
        self,
        path: str,
        body: msgspec.Struct,
        kind: type[Content],
        query: Query | None = None,
        idempotency_key: str | None = None,
    ) -> ApiAnswer[Content]:
        """Send a POST request; with an idempotency key a repetition is harmless. Raises as ``get`` does."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        changes_nothing = idempotency_key is None or bool((query or {}).get("dryRun"))
        meanwhile = _NOTHING_CHANGED if changes_nothing else _MAY_HAPPEN
        return self._ask(
            "POST", _with_query(path, query), kind, msgspec.json.encode(body), headers, meanwhile=meanwhile
        )

    @contextmanager
    def stream(self, path: str, query: Query, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
        """Read an answer while it arrives; each wait for more takes at most the timeout. Raises as ``get``."""
        target = _with_query(path, query)
        connection = self._address.connection(self._timeout_s, self._ca_file)
        try:
            with self._explained():
                response = self._send(connection, "GET", target, None, headers)
                if response.status >= http.HTTPStatus.BAD_REQUEST:
                    raise self._refusal(response.read())
                yield response
        finally:
            connection.close()

    def _ask(
        self,
        method: str,
        target: str,
        kind: type[Content],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accepts: int | None = None,
        meanwhile: str = "",
    ) -> ApiAnswer[Content]:
        connection = self._address.connection(self._timeout_s, self._ca_file)
        try:
            with self._explained(meanwhile):
                response = self._send(connection, method, target, body, headers or {})
                answer = response.read()
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST and response.status != accepts:
            raise self._refusal(answer)
        try:
            return ApiAnswer(answer, msgspec.json.decode(answer, type=kind))
        except msgspec.DecodeError as error:
            raise self._refusal(answer) from error  # an answer with the accepted status may be an error all the same

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        all_headers = {"Accept": "application/json", **headers}
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        if self._token is not None:
            all_headers["Authorization"] = f"Bearer {self._token}"
        began = time.monotonic()
        connection.request(method, self._address.target(target), body, all_headers)
        response = connection.getresponse()
        self._note(f"{method} {target}: {response.status} after {(time.monotonic() - began) * 1000:.0f} ms", response)
        return response

    def _note(self, line: str, response: http.client.HTTPResponse) -> None:
        verbosity = self._settings.verbosity if self._settings is not None else 0
        if not verbosity:
            return
        from cli.output import note

        note(line)
        for name, value in response.getheaders() if verbosity > 1 else ():
            note(f"  {name}: {value}")

    # -- failures ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _explained(self, meanwhile: str = "") -> Iterator[None]:
        """Turn errors of the connection into one sentence. ``meanwhile`` says what may happen without an answer.

        :raises CliError: in place of the original error
        """
        try:
            yield
        except TimeoutError as error:
            raise CliError(ExitCode.TIMED_OUT, self._no_answer(meanwhile)) from error
        except ssl.SSLCertVerificationError as error:
            message = (
                f"the certificate of {self._address.text} is not trusted ({error.verify_message}); "
                "name its CA with ca_file in the context or CONTROLLERCTL_CA_FILE"
            )
            raise CliError(ExitCode.UNREACHABLE, message) from error
        except PermissionError as error:
            message = f"{self._address.text} cannot be used: {error.strerror}; run the command as a user with access"
            raise CliError(ExitCode.FORBIDDEN, message) from error
        except OSError as error:
            raise CliError(ExitCode.UNREACHABLE, self._no_daemon(error.strerror or str(error))) from error
        except http.client.HTTPException as error:
            raise self._not_controllerd() from error

    def _no_answer(self, meanwhile: str) -> str:
        return (
            f"no answer from {self._address.text} within {self._timeout_s:g} s{meanwhile}; --timeout waits longer. "
            f"If it hangs, ask ZooKeeper for the active controller: controllerctl --zk {self._zookeeper} status"
        )

    @property
    def _zookeeper(self) -> str:
        return (self._settings.known_zk if self._settings is not None else None) or "HOSTS"

    def _no_daemon(self, why: str) -> str:
        return (
            f"no daemon answers at {self._address.text} ({why}); start controllerd, "
            "or name its address with --api URL or CONTROLLERCTL_API; "
            f"without a daemon status, get, describe, why and doctor read ZooKeeper: --zk {self._zookeeper}"
        )

    def _refusal(self, answer: bytes) -> CliError:
        try:
            return ApiRefusal(msgspec.json.decode(answer, type=Problem))
        except msgspec.DecodeError:
            return self._not_controllerd()

    def _not_controllerd(self) -> CliError:
        message = f"the server at {self._address.text} is not controllerd; name its HTTP address with --api URL"
        return CliError(ExitCode.UNREACHABLE, message)


def _with_query(path: str, query: Query | None) -> str:
    """Return the path with its query; parameters that are None or False are left out."""
    chosen = {
        name: "true" if value is True else value
        for name, value in (query or {}).items()
        if value is not None and value is not False
    }
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _advice(code: ExitCode) -> str:
    match code:
        case ExitCode.FORBIDDEN:
            return "; give a token with token_file in the context or CONTROLLERCTL_TOKEN"
        case ExitCode.TIMED_OUT:
            return "; controllerctl status and get tasks show how far it is"
        case _:
            return ""
