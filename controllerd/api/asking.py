"""A call into the event queue in a request's name: its reply, or the error that stands for having none."""

import asyncio

from controllerd.api.hang_up import HangUp, Reason
from controllerd.core.kafka_error import KafkaError
from controllerd.errors import CallFailed, ControllerMoved, NotController
from controllerd.snapshot import ClusterSnapshot
from events.base import Call, Reply
from events.queue import EventQueue


class Asker:
    """Puts calls into the queue of the active controller and waits for their replies, not for ever."""

    def __init__(self, queue: EventQueue, snapshot: ClusterSnapshot, timeout_s: float) -> None:
        self._queue = queue
        self._snapshot = snapshot
        self._timeout_s = timeout_s

    async def ask(self, event: Call[Reply], denied: KafkaError | None) -> Reply | KafkaError:
        """The reply to an event. NOT_CONTROLLER is not asked for: a standby says it at once.

        :raises HangUp: there is no reply in time, and nobody knows whether the event will still happen.
        """
        if denied is not None:
            return denied
        if not self._snapshot.is_active:
            return KafkaError.NOT_CONTROLLER
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._queue.call(event)
        except TimeoutError as error:
            raise HangUp(Reason.CALL_TIMEOUT, type(event).__name__) from error
        except (NotController, ControllerMoved):
            return KafkaError.NOT_CONTROLLER
        except CallFailed:
            return KafkaError.UNKNOWN_SERVER_ERROR
