"""Invariants of the responses to control requests. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.records import BrokersRecord, EventBegin, EventEnd, RequestRecord, ResponseRecord, TermRecord
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule, is_snapshot_row

_CLUSTER_AUTHORIZATION_FAILED: Final = 31
"""The only error after which the same request is sent again."""
_STALE_BROKER_EPOCH: Final = 77
"""The broker has registered anew. Its new channel may be open already, with correlation ids from 1."""


class _Channel:
    """The unanswered requests to one registration of a broker."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.is_known = is_known
        """Whether the log has all requests to the broker; it may begin later."""
        self.waiting: deque[str] = deque()
        self.last: ResponseRecord | None = None
        self.is_left = False
        """Whether this registration has ended: the last requests may have gone to the next channel."""


class ResponsesInOrder(Rule):
    """One connection with one request in flight: the broker handles requests in the order of the queue."""

    id = "I-29"
    title = "a broker answers its requests in their order, and correlation ids rise"
    severity = "warning"
    question = "Did the connection to the broker break, and did it handle a request twice or not at all?"
    kinds = frozenset({BrokersRecord, RequestRecord, ResponseRecord, TermRecord, EventBegin, EventEnd})
    checks_snapshot_rows = True

    def __init__(self) -> None:
        self._channels: dict[tuple[int, int], _Channel] = {}
        self._doubts: dict[int, Evidence] = {}
        """Correlation ids that restarted during a BrokerChange: no violation if that event says that the broker failed.

        A broker that registers anew before the controller notices its failure gets a new channel at once. It is sent
        requests with its old epoch there until the event handles it.
        """

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, RequestRecord):
            for target in zip(record.brokers, record.broker_epochs, strict=True):
                self._channels.setdefault(target, _Channel()).waiting.append(record.api)
        elif isinstance(record, ResponseRecord):
            yield from self._add_response(checked, record)
        elif isinstance(record, BrokersRecord):
            self._add_brokers(record, is_known=not is_snapshot_row(checked))
        elif isinstance(record, EventEnd):
            yield from self.finish()
        elif isinstance(record, TermRecord) and record.change in TERM_BEGINS:
            self._channels.clear()  # a new term opens new channels
        elif isinstance(record, EventBegin) and record.name == "BrokerRefresh":
            self._reopen(record.detail.get("broker"))

    def finish(self) -> Iterator[str | Evidence]:
        doubts, self._doubts = self._doubts, {}
        yield from doubts.values()

    def _add_brokers(self, record: BrokersRecord, *, is_known: bool) -> None:
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

    def _add_response(self, checked: CheckedRecord, record: ResponseRecord) -> Iterator[str | Evidence]:
        channel = self._channels.get((record.broker, record.broker_epoch))
        if channel is None:
            yield f"broker {record.broker} (epoch {record.broker_epoch}) answered {record.api} and was never sent one"
            return
        last, channel.last = channel.last, record
        if last is not None and not _follows(last, record) and not channel.is_left:
            text = f"broker {record.broker} answered correlation id {record.correlation_id} after {last.correlation_id}"
            if checked.event == "BrokerChange":
                self._doubts.setdefault(record.broker, Evidence(text, at=checked.envelope))
            else:
                yield text
        elif not self._is_repeated(channel, record) and not self._take(channel, last, record):
            yield f"broker {record.broker} answered {record.api} out of order"

    @staticmethod
    def _is_repeated(channel: _Channel, record: ResponseRecord) -> bool:
        """Whether the same request will be sent again, so that it stays unanswered."""
        return record.error == _CLUSTER_AUTHORIZATION_FAILED and record.api in channel.waiting

    def _take(self, channel: _Channel, last: ResponseRecord | None, record: ResponseRecord) -> bool:
        """Remove the answered request and the ones before it, which were merged or dropped.

        Return whether the response fits a request.

        Old versions split some requests into several, and each is answered.
        """
        if record.api in channel.waiting:
            while channel.waiting.popleft() != record.api:
                pass
            return True
        return not channel.is_known or (last is not None and last.api == record.api)


def _follows(last: ResponseRecord, record: ResponseRecord) -> bool:
    is_repeat = last.error == _CLUSTER_AUTHORIZATION_FAILED and record.correlation_id == last.correlation_id
    is_elsewhere = record.error == _STALE_BROKER_EPOCH
    return is_repeat or is_elsewhere or record.correlation_id > last.correlation_id
