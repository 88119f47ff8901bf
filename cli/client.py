"""The HTTP client of controllerctl: one request per call, every failure an exit code and a sentence."""

import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import msgspec

from cli.connections import parse_address
from cli.exit_codes import CliError, ExitCode
from controllerd.status.schema.admin import (
    AdminRequest,
    ForgetRequest,
    ForgetResponse,
    ResignResponse,
    TakeoverRequest,
    TakeoverResponse,
)
from controllerd.status.schema.common import Health, Problem
from controllerd.status.schema.observations import ObservationsResponse
from controllerd.status.schema.status import StatusResponse

if TYPE_CHECKING:
    from cli.settings import Settings

Content = TypeVar("Content")
Query = Mapping[str, str | int | bool | None]
Holder = Literal["any", "broker", "instance"]
"""From whom the role may be taken."""

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


class Answer(NamedTuple, Generic[Content]):
    """What the daemon said: its very bytes, and what they mean."""

    body: bytes
    content: Content


class RoleAnswer(msgspec.Struct, frozen=True):
    """``GET /controller``."""

    role: str
    reason: str
    controller_epoch: int


class Refusal(CliError):
    """The daemon answered, and the answer is an error; ``problem`` is that answer."""

    def __init__(self, problem: Problem) -> None:
        hint = f"; {problem.hint}" if problem.hint else ""
        code = _BY_STATUS.get(problem.status, ExitCode.INTERNAL)
        super().__init__(code, f"{problem.detail} ({problem.code}){hint}{_advice(code)}")
        self.problem: Final = problem


class Client:
    """Talks to one daemon."""

    def __init__(
        self,
        api: str,
        timeout_s: float,
        *,
        token: str | None = None,
        ca_file: str | None = None,
        settings: "Settings | None" = None,
    ) -> None:
        """``settings`` is for what is said to people on the way. :raises CliError: ``api`` is no address."""
        self._address = parse_address(api)
        self._timeout_s = timeout_s
        self._token = token
        self._ca_file = ca_file
        self._settings = settings

    # -- what is asked for often ---------------------------------------------------------------------------------------

    def status(self) -> Answer[StatusResponse]:
        """The instance and the cluster as it sees it. :raises CliError: it does not say."""
        return self.get("/v1/status", StatusResponse)

    def observations(self) -> Answer[ObservationsResponse]:
        """What an instance that observes has found. :raises CliError: it does not say, or does not observe."""
        return self.get("/v1/observations", ObservationsResponse)

    def takeover(
        self, reason: str, *, remember: bool = False, holder: Holder = "any", dry_run: bool = False
    ) -> Answer[TakeoverResponse]:
        """Make this instance take the role from such a holder, and remember to do so. :raises CliError: it did not."""
        body = TakeoverRequest(reason=reason, remember=remember, from_=holder)
        return self.post("/v1/takeover", body, TakeoverResponse, {"dryRun": dry_run}, str(uuid4()))

    def resign(self, reason: str, *, dry_run: bool = False) -> Answer[ResignResponse]:
        """Make this instance give the role away. :raises CliError: it did not."""
        return self.post("/v1/resign", AdminRequest(reason=reason), ResignResponse, {"dryRun": dry_run}, str(uuid4()))

    def forget_broker(self, broker: int, reason: str, *, dry_run: bool = False) -> Answer[ForgetResponse]:
        """Declare that a broker never returns. :raises CliError: the daemon does not believe it."""
        path, body = f"/v1/brokers/{broker}/forget", ForgetRequest(reason=reason, confirm=broker)
        return self.post(path, body, ForgetResponse, {"dryRun": dry_run}, str(uuid4()))

    def role(self) -> RoleAnswer:
        """What this instance is, whoever leads. :raises CliError: it does not say."""
        return self._ask("GET", "/controller", RoleAnswer, accepts=http.HTTPStatus.SERVICE_UNAVAILABLE).content

    def health(self) -> Health:
        """Every check of the daemon's own health. :raises CliError: it does not say."""
        target = _with_query("/readyz", {"verbose": True})
        return self._ask("GET", target, Health, accepts=http.HTTPStatus.SERVICE_UNAVAILABLE).content

    # -- whatever is asked for -----------------------------------------------------------------------------------------

    def get(self, path: str, kind: type[Content], query: Query | None = None) -> Answer[Content]:
        """Read something. :raises CliError: there is no answer. :raises Refusal: the answer is an error."""
        return self._ask("GET", _with_query(path, query), kind)

    def post(
        self,
        path: str,
        body: msgspec.Struct,
        kind: type[Content],
        query: Query | None = None,
        idempotency_key: str | None = None,
    ) -> Answer[Content]:
        """Have something done; with a key a repetition does no harm. Raises as ``get`` does."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        is_plan = idempotency_key is None or bool((query or {}).get("dryRun"))
        meanwhile = _NOTHING_CHANGED if is_plan else _MAY_HAPPEN
        return self._ask(
            "POST", _with_query(path, query), kind, msgspec.json.encode(body), headers, meanwhile=meanwhile
        )

    @contextmanager
    def stream(self, path: str, query: Query, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
        """An answer that is read while it comes; each wait for more takes at most the time-out. Raises as ``get``."""
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
    ) -> Answer[Content]:
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
            return Answer(answer, msgspec.json.decode(answer, type=kind))
        except msgspec.DecodeError as error:
            raise self._refusal(answer) from error  # what is accepted with this status may be an error all the same

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
        self._tell(f"{method} {target}: {response.status} after {(time.monotonic() - began) * 1000:.0f} ms", response)
        return response

    def _tell(self, line: str, response: http.client.HTTPResponse) -> None:
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
        """``meanwhile``: what may become of it without an answer. :raises CliError: instead of what went wrong."""
        try:
            yield
        except TimeoutError as error:
            raise CliError(ExitCode.TIMED_OUT, self._silent(meanwhile)) from error
        except ssl.SSLCertVerificationError as error:
            message = (
                f"the certificate of {self._address.text} is not trusted ({error.verify_message}); "
                "name its CA with ca_file in the context or CONTROLLERCTL_CA_FILE"
            )
            raise CliError(ExitCode.UNREACHABLE, message) from error
        except PermissionError as error:
            message = f"{self._address.text} may not be used: {error.strerror}; run this as a user who may"
            raise CliError(ExitCode.FORBIDDEN, message) from error
        except OSError as error:
            raise CliError(ExitCode.UNREACHABLE, self._nobody(error.strerror or str(error))) from error
        except http.client.HTTPException as error:
            raise self._stranger() from error

    def _silent(self, meanwhile: str) -> str:
        return (
            f"no answer from {self._address.text} within {self._timeout_s:g} s{meanwhile}; --timeout waits longer. "
            f"Frozen or overloaded? ZooKeeper knows who leads: controllerctl --zk {self._zookeeper} status"
        )

    @property
    def _zookeeper(self) -> str:
        return (self._settings.known_zk if self._settings is not None else None) or "HOSTS"

    def _nobody(self, why: str) -> str:
        return (
            f"no daemon answers at {self._address.text} ({why}); start controllerd, "
            "or name its address with --api URL or CONTROLLERCTL_API; "
            f"without a daemon status, get, describe, why and doctor read ZooKeeper: --zk {self._zookeeper}"
        )

    def _refusal(self, answer: bytes) -> CliError:
        try:
            return Refusal(msgspec.json.decode(answer, type=Problem))
        except msgspec.DecodeError:
            return self._stranger()

    def _stranger(self) -> CliError:
        message = f"what answers at {self._address.text} is not controllerd; name its HTTP address with --api URL"
        return CliError(ExitCode.UNREACHABLE, message)


def _with_query(path: str, query: Query | None) -> str:
    """What is None or False is not asked for."""
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
