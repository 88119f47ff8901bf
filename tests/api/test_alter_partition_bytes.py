"""The hand-written decoder of AlterPartition reads the bytes of kio, in every version and with any values."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.model import BrokerId, LeaderRecoveryState
from events.replicas import ProposedIsr
from tests.api.cluster import new_request
from wire.api_alter_partition import AlterPartitionQuery, decode_alter_partition
from wire.api_codec import Request
from wire.framing import peek_request
from wire.kio_codec import encode_request
from wire.primitives import topic_id_text

INT32 = st.integers(-(2**31), 2**31 - 1)
ISRS = st.lists(INT32.map(BrokerId), max_size=5) | st.lists(st.just(BrokerId(7)), min_size=126, max_size=128)
PROPOSALS = st.builds(ProposedIsr, INT32, INT32, ISRS.map(tuple), st.sampled_from(LeaderRecoveryState))
TOPICS = st.lists(st.tuples(st.uuids(), st.lists(st.tuples(INT32, PROPOSALS), max_size=4)), max_size=3)


def rows(partitions: list[tuple[int, ProposedIsr]]) -> list[dict[str, object]]:
    return [
        {
            "partition_index": index,
            "leader_epoch": proposal.leader_epoch,
            "partition_epoch": proposal.partition_epoch,
            "new_isr": proposal.isr,
            "new_isr_with_epochs": [{"broker_id": member} for member in proposal.isr],
            "leader_recovery_state": int(proposal.recovery_state),
        }
        for index, proposal in partitions
    ]


def name_of(topic_id: UUID, version: int) -> str:
    return str(topic_id) if version < 2 else topic_id_text(topic_id.bytes) or ""


def seen(proposal: ProposedIsr, version: int) -> ProposedIsr:
    return proposal if version >= 1 else proposal._replace(recovery_state=LeaderRecoveryState.RECOVERED)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 3), INT32, st.integers(-1, 2**62), TOPICS)
def test_a_request_is_read_as_it_was_written(
    version: int, broker: int, epoch: int, topics: list[tuple[UUID, list[tuple[int, ProposedIsr]]]]
) -> None:
    values = [{"topic_name": str(uid), "topic_id": uid, "partitions": rows(proposals)} for uid, proposals in topics]
    asked = {"broker_id": broker, "broker_epoch": epoch, "topics": values}
    frame = encode_request(1, "test", new_request(56, version, asked))

    query = decode_alter_partition(Request(peek_request(frame), frame))

    expected = [
        (name_of(uid, version), [(i, seen(proposal, version)) for i, proposal in proposals])
        for uid, proposals in topics
    ]
    assert query == AlterPartitionQuery(BrokerId(broker), epoch, expected)
