"""Invariants of the answers to control requests. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.records import BrokersRecord, EventBegin, EventEnd, RequestRecord, ResponseRecord, TermRecord
from controllerd.record.rules.base import Entry, Evidence, Rule, is_picture

_CLUSTER_AUTHORIZATION_FAILED: Final = 31
"""The one answer after which the very same request is sent again."""
_STALE_BROKER_EPOCH: Final = 77
"""The broker has registered anew: its channel may be another one already, whose numbers begin at one."""


class _Channel:
    """The requests to one life of a broker, and how far it has answered them."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.is_known = is_known
        """Whether everything that it was asked is in the log, which may begin later."""
        self.waiting: deque[str] = deque()
        self.last: ResponseRecord | None = None
        self.is_left = False
        """Whether this life of the broker has ended: what it was asked last may have gone to the next one's channel."""


class AnswersInOrder(Rule):
    """One connection, one request in flight: the order of the queue is the order at the broker."""

    id = "I-29"
    title = "a broker answers what it was asked, in this order, and correlation ids rise"
    severity = "warning"
    question = "Did the connection to the broker break, and did it handle a request twice or not at all?"
    kinds = frozenset({BrokersRecord, RequestRecord, ResponseRecord, TermRecord, EventBegin, EventEnd})
    sees_pictures = True

    def __init__(self) -> None:
        self._channels: dict[tuple[int, int], _Channel] = {}
        self._doubts: dict[int, Evidence] = {}
        """Numbers that began anew while brokers changed: right, if the same event says that this broker had gone.

        One that registers anew before anybody sees its end gets a new channel at once, and is asked there under its old
        epoch until its turn comes.
        """

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, RequestRecord):
            for target in zip(record.brokers, record.broker_epochs, strict=True):
                self._channels.setdefault(target, _Channel()).waiting.append(record.api)
        elif isinstance(record, ResponseRecord):
            yield from self._see_response(entry, record)
        elif isinstance(record, BrokersRecord):
            self._see_brokers(record, is_known=not is_picture(entry))
        elif isinstance(record, EventEnd):
            yield from self.finish()
        elif isinstance(record, TermRecord) and record.change in TERM_BEGINS:
            self._channels.clear()  # with the term all channels were opened anew
        elif isinstance(record, EventBegin) and record.name == "BrokerRefresh":
            self._reopen(record.detail.get("broker"))

    def finish(self) -> Iterator[str | Evidence]:
        doubts, self._doubts = self._doubts, {}
        yield from doubts.values()

    def _see_brokers(self, record: BrokersRecord, *, is_known: bool) -> None:
        if not is_known:
            for row in record.live:
                self._channels.setdefault((row.id, row.epoch), _Channel(is_known=False))
            return
        for broker in record.gone:
            self._doubts.pop(broker, None)
            for target in [target for target in self._channels if target[0] == broker]:
                self._channels[target].is_left = True

    def _reopen(self, broker: object) -> None:
        for target in [target for target in self._channels if target[0] == broker]:
            del self._channels[target]

    def _see_response(self, entry: Entry, record: ResponseRecord) -> Iterator[str | Evidence]:
        channel = self._channels.get((record.broker, record.broker_epoch))
        if channel is None:
            yield f"broker {record.broker} (epoch {record.broker_epoch}) answered {record.api} and was never asked"
            return
        last, channel.last = channel.last, record
        if last is not None and not _follows(last, record) and not channel.is_left:
            text = f"broker {record.broker} answered number {record.correlation_id} after {last.correlation_id}"
            if entry.event == "BrokerChange":
                self._doubts.setdefault(record.broker, Evidence(text, at=entry.envelope))
            else:
                yield text
        elif not self._is_refused(channel, record) and not self._take(channel, last, record):
            yield f"broker {record.broker} answered {record.api} out of order"

    @staticmethod
    def _is_refused(channel: _Channel, record: ResponseRecord) -> bool:
        """The same request comes again, so it is not taken from those that wait."""
        return record.error == _CLUSTER_AUTHORIZATION_FAILED and record.api in channel.waiting

    def _take(self, channel: _Channel, last: ResponseRecord | None, record: ResponseRecord) -> bool:
        """Skip what was merged or dropped; an old version says some requests in several parts, each answered."""
        if record.api in channel.waiting:
            while channel.waiting.popleft() != record.api:
                pass
            return True
        return not channel.is_known or (last is not None and last.api == record.api)


def _follows(last: ResponseRecord, record: ResponseRecord) -> bool:
    is_repeat = last.error == _CLUSTER_AUTHORIZATION_FAILED and record.correlation_id == last.correlation_id
    is_elsewhere = record.error == _STALE_BROKER_EPOCH
    return is_repeat or is_elsewhere or record.correlation_id > last.correlation_id
