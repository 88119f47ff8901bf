"""Kinds about the brokers, the topics and the assignments of the cluster."""

import json
from typing import Any, Final

from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.record.description import RecordKind, Touched
from controllerd.record.facts import PARTITION, FactRows, Facts, as_json, many_rows
from controllerd.record.phrases import listed, partitions_phrase
from controllerd.record.records import AssignmentRecord, BrokerRow, BrokersRecord, TopicsForgotten, TopicsRecord
from controllerd.record.state import ClusterState, FoldedPartition, FoldedTopic, broker_ids


def _brokers_sentence(record: BrokersRecord) -> str:
    parts = [
        f"broker{'s' * (len(ids) > 1)} {listed(ids)} {what}"
        for ids, what in (
            ([row.id for row in record.live], "alive"),
            (record.gone, "gone"),
            (record.shutting_down, "shutting down"),
        )
        if ids
    ]
    return "; ".join(parts) or "no change of brokers"


def _brokers_facts(record: BrokersRecord) -> Facts:
    live, gone, leaving = record.live, record.gone, record.shutting_down
    rest = len(gone) + len(leaving)
    return len(live) + rest, {
        "broker": [row.id for row in live] + gone + leaving,
        "after": ["live"] * len(live) + ["gone"] * len(gone) + ["shutting_down"] * len(leaving),
        "zxid": [row.epoch for row in live] + [None] * rest,
        "data": [as_json({"endpoints": row.endpoints, "rack": row.rack})[0] for row in live],
    }


def _brokers_from(rows: FactRows) -> BrokersRecord:
    brokers, changes = rows.of("broker", "after")
    epochs, said = rows.nullable("zxid", len(brokers)), rows.nullable("data", len(brokers))
    record = BrokersRecord()
    for broker, change, epoch, data in zip(brokers, changes, epochs, said, strict=True):
        if change == "live":
            record.live.append(BrokerRow(broker, epoch, **json.loads(data)))
        else:
            (record.gone if change == "gone" else record.shutting_down).append(broker)
    return record


def _fold_brokers(state: ClusterState, record: BrokersRecord) -> None:
    for gone in record.gone:
        broker = BrokerId(gone)
        state.brokers.pop(broker, None)
        state.shutting_down.discard(broker)
        state.offline_dirs.pop(broker, None)
    state.brokers.update((BrokerId(row.id), row) for row in record.live)
    state.shutting_down.update(map(BrokerId, record.shutting_down))


BROKERS: Final = RecordKind(
    record=BrokersRecord,
    sentence=_brokers_sentence,
    facts=_brokers_facts,
    from_facts=_brokers_from,
    fold=_fold_brokers,
    counter=None,
    touched=lambda record: Touched(
        brokers=[*(row.id for row in record.live), *record.gone, *record.shutting_down],
    ),
    in_snapshot=True,
)


def _topics_from(rows: FactRows) -> TopicsRecord:
    names, versions = rows.of("topic", "partition_epoch")
    return TopicsRecord(names, rows.nullable("name", len(names)), versions)


def _fold_topics(state: ClusterState, record: TopicsRecord) -> None:
    for name, topic_id, version in zip(record.names, record.ids, record.znode_versions, strict=True):
        topic = state.topics.get(name)
        if topic is None:
            state.topics[name] = FoldedTopic(topic_id, version)
        else:
            topic.topic_id, topic.znode_version = topic_id, version


TOPICS: Final = RecordKind(
    record=TopicsRecord,
    sentence=lambda record: f"topics {listed(record.names)} known",
    facts=many_rows(topic="names", name="ids", partition_epoch="znode_versions"),
    from_facts=_topics_from,
    fold=_fold_topics,
    counter=None,
    touched=lambda record: Touched(record.names),
    in_snapshot=True,
    in_digest=True,
)


def _fold_forgotten(state: ClusterState, record: TopicsForgotten) -> None:
    gone: set[TopicPartition] = set()
    for name in record.names:
        topic = state.topics.pop(name, None)
        state.deletions.pop(name, None)
        gone.update(TopicPartition(name, number) for number in (topic.partitions if topic is not None else ()))
    for partitions in state.offline_dirs.values():
        partitions.difference_update(gone)


TOPICS_FORGOTTEN: Final = RecordKind(
    record=TopicsForgotten,
    sentence=lambda record: f"topics {listed(record.names)} gone",
    facts=many_rows(topic="names"),
    from_facts=lambda rows: TopicsForgotten(*rows.of("topic")),
    fold=_fold_forgotten,
    counter=None,
    touched=lambda record: Touched(record.names),
    notes=lambda record, tp: iter(["the topic is gone"] if tp.topic in record.names else []),
    in_digest=True,
)


def _fold_assignment(state: ClusterState, record: AssignmentRecord) -> None:
    columns = (record.topics, record.partitions, record.replicas, record.adding, record.removing)
    for name, number, replicas, adding, removing in zip(*columns, strict=True):
        topic = state.topics.get(name)
        if topic is None:
            continue
        assignment = ReplicaAssignment(broker_ids(replicas), broker_ids(adding), broker_ids(removing))
        topic.partitions.setdefault(number, FoldedPartition(assignment)).assignment = assignment


ASSIGNMENT: Final = RecordKind(
    record=AssignmentRecord,
    sentence=lambda record: f"assignment of {partitions_phrase(record)}",
    facts=many_rows(**PARTITION, replicas="replicas", adding="adding", removing="removing"),
    from_facts=lambda rows: AssignmentRecord(*rows.of("topic", "partition", "replicas", "adding", "removing")),
    fold=_fold_assignment,
    counter=None,
    touched=lambda record: Touched(record.topics, record.partitions),
    in_snapshot=True,
    in_digest=True,
    holds_texts=False,
)

CLUSTER: Final[tuple[RecordKind[Any], ...]] = (BROKERS, TOPICS, TOPICS_FORGOTTEN, ASSIGNMENT)
