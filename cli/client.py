"""The HTTP client of controllerctl: one request per call, every failure an exit code and a sentence."""

import http.client
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from cli.exit_codes import CliError, ExitCode
from controllerd.status.schema import (
    AdminRequest,
    ForgetRequest,
    ForgetResponse,
    ObservationsResponse,
    Problem,
    ResignResponse,
    StatusResponse,
    TakeoverRequest,
    TakeoverResponse,
)

Content = TypeVar("Content")

_BY_STATUS: Final[Mapping[int, ExitCode]] = {
    401: ExitCode.FORBIDDEN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.REFUSED,
    503: ExitCode.UNREACHABLE,
    504: ExitCode.TIMED_OUT,
}
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Answer(NamedTuple, Generic[Content]):
    """What the daemon said: its very bytes, and what they mean."""

    body: bytes
    content: Content


class Client:
    """Talks to one daemon."""

    def __init__(self, api: str, timeout_s: float) -> None:
        """``api`` is the daemon's address. :raises CliError: it is none."""
        self._api = api.rstrip("/")
        self._url = _parse_api(self._api)
        self._timeout_s = timeout_s

    def status(self) -> Answer[StatusResponse]:
        """The instance and the cluster as it sees it. :raises CliError: it does not say."""
        return self._ask("GET", "/v1/status", StatusResponse)

    def observations(self) -> Answer[ObservationsResponse]:
        """What an instance that observes has found. :raises CliError: it does not say, or does not observe."""
        return self._ask("GET", "/v1/observations", ObservationsResponse)

    def takeover(self, reason: str, *, remember: bool = False) -> Answer[TakeoverResponse]:
        """Make this instance take the role, and remember to do so. :raises CliError: it did not."""
        body = msgspec.json.encode(TakeoverRequest(reason=reason, remember=remember))
        return self._ask("POST", "/v1/takeover", TakeoverResponse, body)

    def resign(self, reason: str) -> Answer[ResignResponse]:
        """Make this instance give the role away. :raises CliError: it did not."""
        return self._ask("POST", "/v1/resign", ResignResponse, msgspec.json.encode(AdminRequest(reason=reason)))

    def forget_broker(self, broker: int, reason: str) -> Answer[ForgetResponse]:
        """Declare that a broker never returns. :raises CliError: the daemon does not believe it."""
        body = msgspec.json.encode(ForgetRequest(reason=reason, confirm=broker))
        return self._ask("POST", f"/v1/brokers/{broker}/forget", ForgetResponse, body)

    def _ask(self, method: str, path: str, kind: type[Content], body: bytes | None = None) -> Answer[Content]:
        try:
            status, answer = self._exchange(method, path, body)
        except TimeoutError as error:
            after = "" if body is None else "; the operation may still happen, see controllerctl status"
            message = f"no answer from {self._api} within {self._timeout_s:g} s{after}; --timeout waits longer"
            raise CliError(ExitCode.TIMED_OUT, message) from error
        except OSError as error:
            why = error.strerror or str(error)
            message = (
                f"no daemon answers at {self._api} ({why}); start controllerd, "
                "or name its address with --api URL or CONTROLLERCTL_API"
            )
            raise CliError(ExitCode.UNREACHABLE, message) from error
        except http.client.HTTPException as error:
            raise self._stranger() from error
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise self._refusal(status, answer)
        try:
            return Answer(answer, msgspec.json.decode(answer, type=kind))
        except msgspec.DecodeError as error:
            raise self._stranger() from error

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
        try:
            connection.request(method, self._url.path + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        port = self._url.port or _DEFAULT_PORTS[self._url.scheme]
        return kind(self._url.hostname or "", port, timeout=self._timeout_s)

    def _refusal(self, status: int, answer: bytes) -> CliError:
        try:
            problem = msgspec.json.decode(answer, type=Problem)
        except msgspec.DecodeError:
            return self._stranger()
        hint = f"; {problem.hint}" if problem.hint else ""
        return CliError(_BY_STATUS.get(status, ExitCode.INTERNAL), f"{problem.detail} ({problem.code}){hint}")

    def _stranger(self) -> CliError:
        message = f"what answers at {self._api} is not controllerd; name its HTTP address with --api URL"
        return CliError(ExitCode.UNREACHABLE, message)


def _parse_api(api: str) -> SplitResult:
    try:
        url = urlsplit(api)
        is_sound = url.scheme in _DEFAULT_PORTS and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number
        is_sound, url = False, SplitResult("", "", "", "", "")
    if not is_sound:
        raise CliError(ExitCode.USAGE, f"--api must be like http://127.0.0.1:9191, not {api!r}")
    return url
