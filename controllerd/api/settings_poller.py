"""Request the settings of all live brokers, in every role, outside the event task.

A standby asks as well: when it takes the role over it knows the settings already, and waits for no
broker. An answer enters the event queue only if it has a new value.

Brokers are asked at the start; when a broker registers (it may have been configured anew before its
start), and once more five seconds after its first answer; twice, with a delay, when the configuration
of brokers changes in ZooKeeper, because brokers apply a change only when they notice it themselves; and
every 30 s, for changes without a notification.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import structlog

from controllerd.api.broker_versions import plaintext_endpoint
from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import AN_AUTHORIZER, BY_NAME, NAMES, understood
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.settings_book import SettingsBook
from controllerd.core.topic_defaults import BrokerSetting, ConfigSource
from controllerd.errors import BadZnode, StoreUnavailable
from events.responses import BrokerSettingsReceived
from wire.api_broker_settings import VERSION, NotAuthorized, decode_settings, encode_settings_query
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey

_CLIENT_ID: Final = "controllerd"
_AT_ONCE: Final = 16
"""The number of brokers that are asked at the same time, without those that did not answer before."""
_ROUND_S: Final = 5.0
"""The time between two reads of the registered brokers."""
_EVERY_S: Final = 30.0
"""The time after which a broker that has answered is asked again."""
_SOON_S: Final = (0.5, 5.0)
"""The two delays after which brokers are asked when their configuration changed in ZooKeeper."""
_SHORTEST_PAUSE_S: Final = 0.1
_FIRST_RETRY_S: Final = 0.25
_LONGEST_ASK_S: Final = 10.0
_MOST_DOUBLINGS: Final = 32
"""After this number of doublings, every first pause exceeds the longest; a float overflows at 1,024 doublings."""
_LOG = structlog.get_logger(__name__)

BrokerRegistration = tuple[BrokerId, int]
"""A broker and its epoch."""
Emit = Callable[[BrokerSettingsReceived], None]


def _answer_of(broker: Broker, settings: Mapping[str, BrokerSetting]) -> SettingsAnswer:
    """Return the settings of a broker. :raises ValueError: a value cannot be parsed."""
    hidden = {
        name: setting.hidden or BY_NAME[name].default
        for name, setting in settings.items()
        if setting.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG and name in BY_NAME
    }
    own = frozenset(name for name, setting in settings.items() if setting.source is ConfigSource.DYNAMIC_BROKER_CONFIG)
    values = understood({name: setting.value for name, setting in settings.items()})
    return SettingsAnswer(broker.epoch, values, hidden, own)


def _doubled(first_s: float, times: int, longest_s: float) -> float:
    """Return ``first_s`` doubled ``times`` times, at most ``longest_s``."""
    return min(longest_s, math.ldexp(first_s, min(times, _MOST_DOUBLINGS)))


class SettingsPoller:
    """Request settings, and compare the answers with the known settings; ``run`` is a task of its own."""

    def __init__(
        self,
        book: SettingsBook,
        registered: Callable[[], Awaitable[Sequence[Broker]]],
        listener: str,
        emit: Emit,
        now: Callable[[], float],
        *,
        keep: Callable[[], Awaitable[None]],
        ask_s: float = 1.0,
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``registered`` returns the registered brokers, ``now`` seconds; ``listener`` is the one between brokers.

        ``keep`` is called after each round and saves the known settings. ``ask_s`` bounds the first
        question to a broker; a broker that does not answer in time gets more time at the next
        question.
        """
        self._book = book
        self._registered = registered
        self._listener = listener
        self._emit = emit
        self._now = now
        self._keep = keep
        self._ask_s = ask_s
        self._transport = transport
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._due: dict[BrokerRegistration, float] = {}
        """The time of the next request to each broker."""
        self._failures: dict[BrokerRegistration, int] = {}
        self._nudged = asyncio.Event()
        self._asking: dict[BrokerRegistration, asyncio.Task[SettingsAnswer | None]] = {}
        """The questions in progress, one to each broker at most."""
        self._asked_too_early: set[BrokerRegistration] = set()
        """Registrations whose request in progress may be older than a change in ZooKeeper."""
        self._unread = 0
        """The number of consecutive failures to read ZooKeeper."""
        self.every_broker_answered: Final = asyncio.Event()
        """Set when every registered broker has answered."""
        self._soon: list[float] = []

    def start_round(self) -> None:
        """Start a round at once, because the registered brokers may have changed."""
        self._nudged.set()

    def ask_soon(self) -> None:
        """Ask all brokers twice, after delays, because their configuration changed in ZooKeeper."""
        self._soon = [self._now() + after_s for after_s in _SOON_S]
        self._nudged.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                pause_s = await self.round()
                await self._keep()
                await self._wait(pause_s)
        finally:
            asking = list(self._asking.values())
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def round(self) -> float:
        """Read the registered brokers, ask the brokers whose next request is due, and pass new answers on.

        The question to a broker that does not answer at once goes on, and a later round takes the answer.
        So the answers of the other brokers do not wait for it. Returns the seconds to the next round.
        """
        try:
            brokers = await self._registered()
        except (StoreUnavailable, BadZnode) as error:
            return self._unreadable(error)
        self._unread = 0
        registered = {broker.id: broker.epoch for broker in brokers}
        answers = self._take_finished()  # first of all: the answer of a broker that has failed since counts
        self._forget_others(registered)
        self._ask_due(brokers)
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=self._ask_s)
        answers |= self._take_finished()
        if self._book.would_change(answers, registered):
            self._emit(BrokerSettingsReceived(answers, registered))
        if all(self._failures.get(registration) == 0 for registration in registered.items()):
            self.every_broker_answered.set()
        now = self._now()
        return min([_ROUND_S, *(at - now for at in self._soon), *(at - now for at in self._due.values())])

    def _unreadable(self, error: Exception) -> float:
        """Count the failure to read the registered brokers; return the seconds to the next round, ever more of them."""
        if not self._unread:
            _LOG.info("could not read registered brokers", reason=str(error))
        self._unread += 1
        return _doubled(_FIRST_RETRY_S, self._unread - 1, _ROUND_S)

    async def _wait(self, pause_s: float) -> None:
        """Wait for the next round: until its time, a request for it, or a late answer.

        While ZooKeeper cannot be read, an answer that has come already ends no pause: no round takes it.
        """
        request = asyncio.ensure_future(self._nudged.wait())
        late = (task for task in self._asking.values() if not (self._unread and task.done()))
        pause_s = max(_SHORTEST_PAUSE_S, pause_s)
        try:
            await asyncio.wait({request, *late}, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            request.cancel()
        self._nudged.clear()

    def _ask_due(self, brokers: Sequence[Broker]) -> None:
        now = self._now()
        is_soon = any(at <= now for at in self._soon)
        self._soon = [at for at in self._soon if at > now]
        for broker in brokers:
            registration = broker.id, broker.epoch
            if registration in self._asking:
                if is_soon:
                    self._asked_too_early.add(registration)
            elif is_soon or self._due.get(registration, now) <= now:
                self._due.pop(registration, None)
                self._asking[registration] = asyncio.create_task(
                    self._question(broker), name=f"ask settings {broker.id}"
                )

    def _take_finished(self) -> dict[BrokerId, SettingsAnswer]:
        """Take the answers of the questions that have ended."""
        ended = {
            registration: self._asking.pop(registration)
            for registration, task in list(self._asking.items())
            if task.done()
        }
        answers = {registration[0]: task.result() for registration, task in ended.items()}
        return {broker: answer for broker, answer in answers.items() if answer is not None}

    async def _question(self, broker: Broker) -> SettingsAnswer | None:
        answer = await self._ask(broker)
        self._plan((broker.id, broker.epoch), has_answered=answer is not None)
        return answer

    def _plan(self, registration: BrokerRegistration, *, has_answered: bool) -> None:
        """Ask a broker that did not answer again soon, and then less and less often."""
        failures = self._failures[registration] = 0 if has_answered else self._failures.get(registration, 0) + 1
        pause_s = (
            self._pause_after_answer_s(registration)
            if has_answered
            else _doubled(_FIRST_RETRY_S, failures - 1, _EVERY_S)
        )
        is_to_be_repeated = has_answered and registration in self._asked_too_early
        self._asked_too_early.discard(registration)
        self._due[registration] = self._now() + (0.0 if is_to_be_repeated else pause_s)

    def _pause_after_answer_s(self, registration: BrokerRegistration) -> float:
        """Return the pause after an answer; a short one while the book has no answer of this registration.

        The event with the answer may be lost, because a new session may empty the queue.
        """
        return _ROUND_S if self._book.unanswered(dict([registration])) else _EVERY_S

    def _forget_others(self, registered: Mapping[BrokerId, int]) -> None:
        """Forget every registration but these, and cancel the requests to the others."""
        self._asked_too_early &= registered.items()
        for registration in (self._due.keys() | self._asking.keys() | self._failures.keys()) - registered.items():
            self._due.pop(registration, None)
            self._failures.pop(registration, None)
            if (task := self._asking.pop(registration, None)) is not None:
                task.cancel()

    async def _ask(self, broker: Broker) -> SettingsAnswer | None:
        """Return the answer of a broker; None if it gave none in time."""
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            return None
        try:
            async with self._slot(broker), asyncio.timeout(self._patience_s(broker)):
                answer = await self._answer(broker.id, endpoint)
            return _answer_of(broker, decode_settings(answer))
        except NotAuthorized:  # only a broker with an authorizer refuses the request
            return SettingsAnswer(broker.epoch, understood({"authorizer.class.name": AN_AUTHORIZER}))
        except (OSError, WireError, ValueError) as error:  # ValueError: a value is no number, or the host no valid name
            if not self._failures.get((broker.id, broker.epoch)):
                _LOG.info("broker settings request failed", broker=broker.id, error=repr(error))
            return None

    def _slot(self, broker: Broker) -> AbstractAsyncContextManager[None]:
        """Return the slot of a request. A broker that did not answer before takes no slot from the others."""
        return nullcontext() if self._failures.get((broker.id, broker.epoch)) else self._limit

    def _patience_s(self, broker: Broker) -> float:
        failures = self._failures.get((broker.id, broker.epoch), 0)
        return _doubled(self._ask_s, failures, _LONGEST_ASK_S)

    async def _answer(self, broker: BrokerId, endpoint: Endpoint) -> bytes:
        connection = await KafkaConnection.connect(endpoint.host, endpoint.port, _CLIENT_ID, transport=self._transport)
        try:
            return await connection.request(
                ApiKey.DESCRIBE_CONFIGS, VERSION, encode_settings_query(broker, NAMES, with_hidden=True)
            )
        finally:
            connection.abort()
