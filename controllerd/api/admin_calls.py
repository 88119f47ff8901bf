"""What operators ask of the controller: elections, reassignments, features. Each becomes a call in the event queue."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from controllerd.api.admin_texts import election_text, feature_text, reassignment_text, top_level_feature_text
from controllerd.api.apart import SMALL, apart
from controllerd.api.asking import Asker
from controllerd.core.context import NO_ASSIGNMENT
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.snapshot import ClusterSnapshot
from events.admin import UpdateFeatures
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment, ListPartitionReassignments
from wire.api_codec import Request
from wire.api_elections import (
    FIRST_WITH_TYPE,
    ElectLeadersQuery,
    RowResult,
    decode_elect_leaders,
    encode_elect_leaders,
)
from wire.api_features import FeatureResult, decode_update_features, encode_update_features
from wire.api_reassignments import (
    WantedReplicas,
    decode_alter_reassignments,
    decode_list_reassignments,
    encode_alter_reassignments,
    encode_list_reassignments,
)
from wire.framing import RequestHeader

_ELECTION_TYPES: Final = {kind.value: kind for kind in ElectionType}
_BYTES_PER_ROW: Final = 10
"""Of the smallest row that makes a request large: a partition and its replicas."""
_LOG = structlog.get_logger(__name__)

Elected = Mapping[TopicPartition, BrokerId | KafkaError]


class AdminCalls:
    """ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and UpdateFeatures.

    Every method raises MalformedMessage for bytes that are no such request, and HangUp when there is no answer in time.
    """

    def __init__(self, asker: Asker, snapshot: ClusterSnapshot) -> None:
        self._asker = asker
        self._snapshot = snapshot

    # -- ElectLeaders --------------------------------------------------------------------------------------------------

    async def elect_leaders(self, request: Request, denied: KafkaError | None) -> bytes:
        """Answer ElectLeaders (key 43) once clients of this node can see the new leaders, or the time is up."""
        query = await apart(_rows_in(request), decode_elect_leaders, request)
        until = asyncio.get_running_loop().time() + query.timeout_ms / 1000
        kind = _ELECTION_TYPES.get(query.election_type)
        if kind is None:
            denied = denied or KafkaError.INVALID_REQUEST
        wanted = None if query.partitions is None else frozenset(query.partitions)
        event = ReplicaLeaderElection(wanted, kind or ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT)
        reply = await self._asker.ask(event, denied)
        if isinstance(reply, KafkaError):
            return self._no_election(request, query, reply)
        results = await self._results(reply, wanted, until)
        return await apart(len(results), _election_answer, request.head, results, event.election_type)

    def _no_election(self, request: Request, query: ElectLeadersQuery, error: KafkaError) -> bytes:
        """The same error for everything. A standby says it per partition, as brokers do; to whoever asked for all
        partitions it must say it at the top, or its answer would look like "nothing was to do".
        """
        named = query.partitions
        top_level = KafkaError.NONE if error is KafkaError.NOT_CONTROLLER and named else error
        if named is None and request.head.version < FIRST_WITH_TYPE:
            named = [TopicPartition(t.name, p.partition) for t in self._snapshot.topics.values() for p in t.partitions]
        rows = ((tp, RowResult(tp.partition, error)) for tp in dict.fromkeys(named or ()))
        return encode_elect_leaders(request.head, top_level, _by_topic(rows))

    async def _results(
        self, reply: Elected, wanted: frozenset[TopicPartition] | None, until: float
    ) -> dict[TopicPartition, KafkaError]:
        expected = {tp: leader for tp, leader in reply.items() if not isinstance(leader, KafkaError)}
        results = {tp: result for tp, result in reply.items() if isinstance(result, KafkaError)}
        if wanted is None:
            results = {tp: error for tp, error in results.items() if error is not KafkaError.ELECTION_NOT_NEEDED}
        else:
            results |= _unanswered("elections", wanted - reply.keys())
        missing = await self._await_leaders(expected, until)
        results |= {tp: KafkaError.REQUEST_TIMED_OUT if tp in missing else KafkaError.NONE for tp in expected}
        return results

    async def _await_leaders(self, expected: Mapping[TopicPartition, BrokerId], until: float) -> set[TopicPartition]:
        """Wait until the snapshot shows these leaders, or will not any more; returns what it does not show."""
        missing = set(expected)
        with suppress(TimeoutError):  # some are missing then, and the answer says which
            async with asyncio.timeout_at(until):
                seen = self._snapshot.version
                while (missing := await self._not_led(missing, expected)) and self._may_come():
                    if seen == self._snapshot.version:  # else another picture came while we looked at the last
                        await self._snapshot.next_version()
                    seen = self._snapshot.version
        return missing

    async def _not_led(
        self, partitions: Iterable[TopicPartition], expected: Mapping[TopicPartition, BrokerId]
    ) -> set[TopicPartition]:
        missing = set()
        for number, tp in enumerate(partitions, 1):
            view = self._snapshot.partition(tp)
            if view is None or view.leadership is None or view.leadership.leader != expected[tp]:
                missing.add(tp)
            if number % SMALL == 0:
                await asyncio.sleep(0)
        return missing

    def _may_come(self) -> bool:
        """Whether our picture still follows the cluster: after a loss of the role it does not."""
        return self._snapshot.is_active

    # -- reassignments -------------------------------------------------------------------------------------------------

    async def alter_reassignments(self, request: Request, denied: KafkaError | None) -> bytes:
        """Answer AlterPartitionReassignments (key 45) when the reassignments have begun, not when they are done."""
        wanted = await apart(_rows_in(request), decode_alter_reassignments, request)
        targets, refused = _targets(wanted)
        reply = await self._asker.ask(ApiPartitionReassignment(targets), denied)
        if isinstance(reply, KafkaError):
            # Java's client wants a row for each partition beside a top-level error, or takes the answer for broken.
            rows = [(tp, RowResult(tp.partition, reply)) for tp in dict.fromkeys(row.tp for row in wanted)]
            return encode_alter_reassignments(request.head, reply, None, _by_topic(rows))
        results = {**reply, **_unanswered("reassignments", targets.keys() - reply.keys())}
        failed = {tp: error for tp, error in results.items() if error is not KafkaError.NONE}
        texts = self._reasons(failed, targets)
        return await apart(len(wanted), _reassignment_answer, request.head, results, texts, refused)

    def _reasons(
        self, failed: Mapping[TopicPartition, KafkaError], targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, str | None]:
        live = self._snapshot.brokers.keys() - self._snapshot.shutting_down
        texts = {}
        for tp, error in failed.items():
            view = self._snapshot.partition(tp)
            current = view.assignment if view is not None else NO_ASSIGNMENT
            texts[tp] = reassignment_text(error, targets.get(tp), current, live)
        return texts

    async def list_reassignments(self, request: Request, denied: KafkaError | None) -> bytes:
        """Answer ListPartitionReassignments (key 46) with those of the wanted partitions that are under way."""
        wanted = decode_list_reassignments(request)
        event = ListPartitionReassignments(None if wanted is None else frozenset(wanted))
        reply = await self._asker.ask(event, denied)
        if isinstance(reply, KafkaError):
            return encode_list_reassignments(request.head, reply, None, {})
        return await apart(len(reply), _listing, request.head, reply)

    # -- features ------------------------------------------------------------------------------------------------------

    async def update_features(self, request: Request, denied: KafkaError | None) -> bytes:
        """Answer UpdateFeatures (key 57). Clusters of this mode have no features, so that little can succeed."""
        query = decode_update_features(request)
        counts = Counter(row.name for row in query.rows)
        updates = {row.name: row.update for row in query.rows if row.update is not None and counts[row.name] == 1}
        reply = await self._asker.ask(UpdateFeatures(updates, query.validate_only), denied)
        if isinstance(reply, KafkaError):
            return encode_update_features(request.head, reply, top_level_feature_text(reply), ())
        errors = {name: reply.get(name, KafkaError.UNKNOWN_SERVER_ERROR) for name in updates}
        live = list(self._snapshot.brokers.values())
        results = [
            FeatureResult(name, error, feature_text(error, name, updates.get(name), live))
            for name, error in ((name, errors.get(name, KafkaError.INVALID_REQUEST)) for name in counts)
        ]
        return encode_update_features(request.head, KafkaError.NONE, None, results)


def _election_answer(head: RequestHeader, results: Mapping[TopicPartition, KafkaError], kind: ElectionType) -> bytes:
    rows = (
        (tp, RowResult(tp.partition, error, election_text(tp, error, kind))) for tp, error in sorted(results.items())
    )
    return encode_elect_leaders(head, KafkaError.NONE, _by_topic(rows))


def _reassignment_answer(
    head: RequestHeader,
    results: Mapping[TopicPartition, KafkaError],
    texts: Mapping[TopicPartition, str | None],
    refused: Iterable[TopicPartition],
) -> bytes:
    rows = [(tp, RowResult(tp.partition, error, texts.get(tp))) for tp, error in results.items()]
    rows += [(tp, RowResult(tp.partition, KafkaError.INVALID_REQUEST, "named twice")) for tp in refused]
    return encode_alter_reassignments(head, KafkaError.NONE, None, _by_topic(sorted(rows)))


def _listing(head: RequestHeader, reply: Mapping[TopicPartition, ReplicaAssignment]) -> bytes:
    topics: defaultdict[str, list[tuple[int, ReplicaAssignment]]] = defaultdict(list)
    for tp, assignment in sorted(reply.items()):
        if assignment.is_being_reassigned:
            topics[tp.topic].append((tp.partition, assignment))
    return encode_list_reassignments(head, KafkaError.NONE, None, topics)


def _rows_in(request: Request) -> int:
    """How many rows a request may have, from its size."""
    return len(request.frame) // _BYTES_PER_ROW


def _targets(
    wanted: Sequence[WantedReplicas],
) -> tuple[dict[TopicPartition, tuple[BrokerId, ...] | None], list[TopicPartition]]:
    """What to do with each partition, and the partitions for which two different things were wanted."""
    targets = dict(wanted)
    if len(targets) == len(wanted):
        return targets, []
    wishes: defaultdict[TopicPartition, set[tuple[BrokerId, ...] | None]] = defaultdict(set)
    for tp, replicas in wanted:
        wishes[tp].add(replicas)
    clear = {tp: next(iter(wish)) for tp, wish in wishes.items() if len(wish) == 1}
    return clear, [tp for tp in wishes if tp not in clear]


def _unanswered(subject: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError]:
    """Partitions that the reply says nothing about: clients count the rows, so that each gets one."""
    missing = list(partitions)
    if missing:
        _LOG.warning("admin call left partitions unanswered", subject=subject, partitions=len(missing))
    return dict.fromkeys(missing, KafkaError.UNKNOWN_SERVER_ERROR)


def _by_topic(rows: Iterable[tuple[TopicPartition, RowResult]]) -> dict[str, list[RowResult]]:
    topics: defaultdict[str, list[RowResult]] = defaultdict(list)
    for tp, row in rows:
        topics[tp.topic].append(row)
    return dict(topics)
