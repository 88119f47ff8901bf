"""Requests of brokers to their controller: each becomes a call in the event queue, and its reply a response."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from controllerd.api.event_calls import EventCaller
from controllerd.api.large_messages import decode_request, run_in_thread_if_large
from controllerd.api.native import NativeRequest, serves
from controllerd.api.sessions import AclOperation
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.snapshot import ClusterSnapshot
from events.admin import AllocateProducerIds, ControlledShutdown
from events.replicas import AlterPartitionReceived, AlterPartitionReply
from wire.api_alter_partition import (
    FIRST_WITH_IDS,
    AlterPartitionQuery,
    Outcome,
    UnknownRecoveryState,
    decode_alter_partition,
    encode_alter_partition,
)
from wire.api_messages import (
    decode_broker_query,
    encode_allocate_producer_ids,
    encode_controlled_shutdown,
)
from wire.versions import ApiKey, VersionRange

_BYTES_PER_PARTITION: Final = 50
"""Rows of AlterPartition below which a request is decoded in the loop: a thread would delay the broker."""
_RETRY_PAUSE_S: Final = 0.1
"""The delay of two kinds of responses: the leader will repeat its request, or refusing an ISR member took a write.

A leader from 2.8 on repeats the request as soon as it has read the response, and every request is
an event. The leader's other ISR changes wait meanwhile, since it has one request in progress at a
time; the delay is short against the seconds in which ISRs change.

A leader older than 3.0 that is made to return to the committed ISR by a write proposes the follower again at its next
fetch, and is refused by a write again. The pause limits each leader to ten such rounds a second. It must not be much
longer: while a change of an ISR is in progress, the leader removes no lagging follower from that ISR
(``Partition.maybeShrinkIsr``, which runs every half of ``replica.lag.time.max.ms``). With a pause of half a second
nearly every run would meet a change in progress, and a follower that hangs would keep the high watermark back for many
minutes.
"""
_LOG = structlog.get_logger(__name__)


class BrokerCalls:
    """AlterPartition, AllocateProducerIds and ControlledShutdown."""

    def __init__(self, asker: EventCaller, snapshot: ClusterSnapshot) -> None:
        self._asker = asker
        self._snapshot = snapshot

    @serves(ApiKey.ALTER_PARTITION, VersionRange(0, 3), needs=AclOperation.CLUSTER_ACTION)
    async def alter_partition(self, request: NativeRequest) -> bytes:
        """Answer AlterPartition (key 56). :raises MalformedMessage: bad bytes. :raises HangUp: no answer in time."""
        try:
            query = await run_in_thread_if_large(
                len(request.frame) // _BYTES_PER_PARTITION, decode_alter_partition, request
            )
        except UnknownRecoveryState as unknown:
            _LOG.warning("refused AlterPartition", reason=str(unknown))
            return encode_alter_partition(request.head, KafkaError.UNKNOWN_SERVER_ERROR, {})
        denied = request.denied or (KafkaError.INVALID_REQUEST if _repeats(query) else None)
        reply = await self._asker.ask(_alter_partition_event(query, request.head.version), denied)
        if isinstance(reply, KafkaError):
            return encode_alter_partition(request.head, reply, {})
        topics = self._outcomes(query, reply, request.head.version) if reply.error is KafkaError.NONE else {}
        if reply.error is KafkaError.NONE and (reply.costs_writes or _is_asked_again(query, topics)):
            await asyncio.sleep(_RETRY_PAUSE_S)
        return encode_alter_partition(request.head, reply.error, topics)

    @serves(ApiKey.ALLOCATE_PRODUCER_IDS, VersionRange(0, 0), needs=AclOperation.CLUSTER_ACTION)
    async def allocate_producer_ids(self, request: NativeRequest) -> bytes:
        """Answer AllocateProducerIds (key 67). :raises MalformedMessage, HangUp: as ``alter_partition``.

        Without this API, brokers would block their producer ids until a restart (``wire.md`` G-3).
        """
        query = await decode_request(decode_broker_query, request)
        reply = await self._asker.ask(AllocateProducerIds(query.broker, query.broker_epoch), request.denied)
        if isinstance(reply, KafkaError):
            return encode_allocate_producer_ids(request.head, reply)
        if reply.error is not KafkaError.NONE:
            return encode_allocate_producer_ids(request.head, reply.error)
        return encode_allocate_producer_ids(request.head, reply.error, reply.start, reply.length)

    @serves(ApiKey.CONTROLLED_SHUTDOWN, VersionRange(0, 3), needs=AclOperation.CLUSTER_ACTION)
    async def controlled_shutdown(self, request: NativeRequest) -> bytes:
        """Answer ControlledShutdown (key 7). :raises MalformedMessage, HangUp: as ``alter_partition``."""
        query = await decode_request(decode_broker_query, request)
        reply = await self._asker.ask(ControlledShutdown(query.broker, query.broker_epoch), request.denied)
        if reply is KafkaError.NOT_CONTROLLER:
            # This API predates NOT_CONTROLLER; a broker knows a deposed controller by this code (wire.md A.3).
            reply = KafkaError.STALE_CONTROLLER_EPOCH
        if isinstance(reply, KafkaError):
            return encode_controlled_shutdown(request.head, reply, ())
        return encode_controlled_shutdown(request.head, reply.error, reply.remaining)

    def _outcomes(
        self, query: AlterPartitionQuery, reply: AlterPartitionReply, version: int
    ) -> dict[str, Sequence[tuple[int, Outcome]]]:
        """Return the outcomes of the reply. A partition without one is left out, and the leader requests it again."""
        topics: defaultdict[str, list[tuple[int, Outcome]]] = defaultdict(list)
        for key, partitions in query.topics:
            name = self._snapshot.names_by_id.get(key) if version >= FIRST_WITH_IDS else key
            unknown = reply.unknown_ids.get(key, ()) if version >= FIRST_WITH_IDS else ()
            for index, _ in partitions:
                found = reply.partitions.get(TopicPartition(name, index)) if name is not None else None
                outcome = reply.unknown_error if index in unknown else found
                if outcome is None:
                    _LOG.info("left partition out of AlterPartition response", topic=name or key, partition=index)
                else:
                    topics[key].append((index, outcome))
        return dict(topics)


def _alter_partition_event(query: AlterPartitionQuery, version: int) -> AlterPartitionReceived:
    rows = [(key, index, proposed) for key, partitions in query.topics for index, proposed in partitions]
    has_ids = version >= FIRST_WITH_IDS
    return AlterPartitionReceived(
        broker=query.broker,
        broker_epoch=query.broker_epoch,
        version=version,
        by_name={} if has_ids else {TopicPartition(name, index): proposed for name, index, proposed in rows},
        by_id={(topic_id, index): proposed for topic_id, index, proposed in rows} if has_ids else {},
    )


def _is_asked_again(query: AlterPartitionQuery, topics: Mapping[str, Sequence[tuple[int, Outcome]]]) -> bool:
    """Return whether the response makes the leader repeat any of its changes at once."""
    answered = [outcome for rows in topics.values() for _, outcome in rows]
    asked = sum(len(partitions) for _, partitions in query.topics)
    return len(answered) < asked or KafkaError.UNKNOWN_SERVER_ERROR in answered


def _repeats(query: AlterPartitionQuery) -> bool:
    """Return whether a partition is named twice: two requests for one ISR cannot both be answered."""
    named = [(key, index) for key, partitions in query.topics for index, _ in partitions]
    return len(named) != len(set(named))
