"""The fenced writer where others interfere at the worst moment; in memory, where the moment can be chosen."""

import pytest

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import ControllerMoved, StoreUnavailable
from controllerd.ports.results import AllocatedProducerIds, Conflict, WriteFailed, Written
from controllerd.record.records import ZkWriteRecord
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, Create, Delete, Operation, SetData, Znode
from controllerd.zk.packing import MAX_SINGLE_BYTES, as_wholes, conflict_of, effect_of
from tests.fakes.audit import RecordingAudit
from tests.fakes.store import FakeElector, FakeStore
from tests.fakes.zookeeper import run
from tests.zk.world import states_of

T0 = TopicPartition("t", 0)


@pytest.fixture
def store() -> FakeStore:
    """A leading store with one topic of 1,200 partitions, each with a state."""
    store = FakeStore()
    store.lead()
    store.add_topic("t", {p: [1, 2] for p in range(1_200)})
    for tp, state in states_of("t", 1_200).items():
        store.set_state(tp, state)
    return store


async def test_a_foreign_write_between_two_rounds_is_a_conflict_of_its_partition(store: FakeStore) -> None:
    states = states_of("t", 1_200)
    last = TopicPartition("t", 1_199)
    store.tree.put(paths.partition_state(T0), b"{}")
    store.before_write(4, lambda: store.tree.put(paths.partition_state(last), b"{}"))

    results = await store.states.update_states(states)

    assert {tp for tp, result in results.items() if isinstance(result, Conflict)} == {T0}
    assert results[last] == Written(1)


async def test_a_deposed_writer_sends_no_further_transaction(store: FakeStore) -> None:
    store.before_write(2, store.depose)

    with pytest.raises(ControllerMoved):
        await store.states.update_states(states_of("t", 1_200))

    assert len(store.writes) == 500


async def test_a_term_that_ends_while_it_writes_writes_nothing_more(store: FakeStore) -> None:
    elector = FakeElector(store)
    store.tree.put(paths.partition_state(T0), b"{}")
    store.before_write(1, elector.forget_term)
    with pytest.raises(ControllerMoved):
        await store.states.update_states(states_of("t", 400))
    assert store.writes == []


async def test_an_operation_that_keeps_failing_is_found_by_halving(store: FakeStore) -> None:
    """A parent that vanishes again and again fails its children without any of their znodes having moved."""
    states = states_of("t", 8) | states_of("gone", 1)
    for tp in states_of("t", 8):
        store.tree.remove(paths.partition_state(tp))

    results = dict(await store.states.create_states(states))

    assert isinstance(results.pop(TopicPartition("gone", 0)), Conflict)
    assert set(results.values()) == {Written(0)}


async def test_a_lost_answer_to_a_transaction_that_was_refused_is_sent_again(store: FakeStore) -> None:
    states = states_of("t", 3)
    store.tree.put(paths.partition_state(T0), b"{}")
    store.zk.lose_reply_of.add(1)

    results = await store.states.update_states(states)

    assert isinstance(results[T0], Conflict)
    assert results[TopicPartition("t", 1)] == Written(1)


async def test_our_own_write_with_a_lost_answer_that_others_wrote_over_is_a_conflict(store: FakeStore) -> None:
    store.zk.lose_reply_of.add(1)
    store.zk.after_transaction[1] = lambda: store.tree.put(paths.partition_state(T0), b"{}")

    results = await store.states.update_states(states_of("t", 2))

    assert isinstance(results[T0], Conflict)
    assert results[TopicPartition("t", 1)] == Written(1)


async def test_an_equal_write_of_the_next_controller_is_not_taken_for_our_own_with_a_lost_answer(
    store: FakeStore,
) -> None:
    """Two controllers give the same broker the same next block of producer ids: it must be given once."""
    block = AllocatedProducerIds(BrokerId(1), 0, 999, -1)

    def the_next_controller() -> None:
        store.depose()
        data = codecs.encode_producer_id_block(codecs.ProducerIdBlockZnode(BrokerId(1), 0, 999))
        store.tree.put(paths.LATEST_PRODUCER_ID_BLOCK, data)

    store.before_write(1, the_next_controller)
    store.zk.lose_reply_of.add(1)

    with pytest.raises(ControllerMoved):
        await store.producer_ids.write_producer_ids(block)


async def test_each_transaction_is_recorded_as_soon_as_it_is_answered(store: FakeStore) -> None:
    assert isinstance(store.audit, RecordingAudit)
    audit = store.audit
    seen: list[int] = []
    store.before_write(3, lambda: seen.append(len(audit.of(ZkWriteRecord))))

    await store.states.update_states(states_of("t", 1_200))

    assert seen == [2]


async def test_a_lost_session_leaves_records_of_what_was_sent_alone(store: FakeStore) -> None:
    store.before_write(1, store.zk.expire)

    with pytest.raises(StoreUnavailable):
        await store.states.update_states(states_of("t", 1_200))

    assert isinstance(store.audit, RecordingAudit)
    assert [set(record.results) for record in store.audit.of(ZkWriteRecord)] == [{"ok"}, {"unknown"}]


async def test_a_lost_answer_leaves_one_record_that_says_so(store: FakeStore) -> None:
    store.zk.lose_reply_of.add(1)
    await store.states.update_states(states_of("t", 2))
    assert isinstance(store.audit, RecordingAudit)
    records = store.audit.of(ZkWriteRecord)
    assert [(record.ambiguous, record.results) for record in records] == [(True, ["ok", "ok"])]


def creation(topic: str, config: bytes = b"new") -> list[Operation]:
    """A group as the creation of a topic has it."""
    return [Create(paths.topic_config(topic), config), Create(paths.topic(topic), b"{}")]


async def test_a_group_whose_topic_exists_writes_no_configuration(store: FakeStore) -> None:
    results = await store.writer.write_groups([creation("t"), creation("u"), creation("v")])

    assert results == [Conflict("/brokers/topics/t: the znode exists already"), Written(0), Written(0)]
    assert paths.topic_config("t") not in store.tree.nodes
    assert {paths.topic_config("u"), paths.topic_config("v")} <= store.tree.nodes.keys()


async def test_an_existing_znode_never_counts_as_written_in_a_group(store: FakeStore) -> None:
    store.tree.put(paths.topic("u"), b"{}")

    (result,) = await store.writer.write_groups([creation("u")])

    assert isinstance(result, Conflict)
    assert paths.topic_config("u") not in store.tree.nodes


async def test_groups_are_packed_whole_into_few_transactions(store: FakeStore) -> None:
    groups = [creation(f"new{number}") for number in range(600)]

    results = await store.writer.write_groups(groups)

    assert results == [Written(0)] * 600
    assert [len(each) for each in store.zk.transactions] == [501, 501, 201]
    assert {each[0].path for each in store.zk.transactions} == {paths.CONTROLLER_EPOCH}


async def test_after_a_refusal_the_other_groups_go_one_by_one(store: FakeStore) -> None:
    results = await store.writer.write_groups([creation("u"), creation("t"), creation("v")])

    assert [type(result) for result in results] == [Written, Conflict, Written]
    assert [[op.path for op in each[1:]] for each in store.zk.transactions[1:]] == [
        ["/config/topics/u", "/brokers/topics/u"],
        ["/config/topics/v", "/brokers/topics/v"],
    ]


async def test_a_group_with_a_lost_answer_is_known_by_its_last_znode(store: FakeStore) -> None:
    store.zk.lose_reply_of.add(1)

    results = await store.writer.write_groups([creation("u"), creation("v")])

    assert results == [Written(0), Written(0)]
    assert len(store.zk.transactions) == 1
    assert isinstance(store.audit, RecordingAudit)
    assert [(record.ambiguous, set(record.results)) for record in store.audit.of(ZkWriteRecord)] == [(True, {"ok"})]


async def test_groups_that_were_refused_with_a_lost_answer_are_sent_again(store: FakeStore) -> None:
    store.zk.lose_reply_of.add(1)

    results = await store.writer.write_groups([creation("t"), creation("u")])

    assert [type(result) for result in results] == [Conflict, Written]
    assert paths.topic_config("t") not in store.tree.nodes


async def test_an_equal_group_of_the_next_controller_is_not_taken_for_our_own(store: FakeStore) -> None:
    def the_next_controller() -> None:
        store.depose()
        for operation in creation("u"):
            assert isinstance(operation, Create)
            store.tree.put(operation.path, operation.data)

    store.before_write(1, the_next_controller)
    store.zk.lose_reply_of.add(1)

    with pytest.raises(ControllerMoved):
        await store.writer.write_groups([creation("u")])


async def test_a_group_that_zookeeper_refuses_fails_alone(store: FakeStore) -> None:
    store.zk.read_only.add(paths.topic("u"))

    results = await store.writer.write_groups([creation("u"), creation("v")])

    assert results == [WriteFailed("NoAuth"), Written(0)]
    assert paths.topic_config("u") not in store.tree.nodes


async def test_a_group_too_large_for_one_request_fails_unsent(store: FakeStore) -> None:
    results = await store.writer.write_groups([creation("u", b"x" * 1_100_000), creation("v")])

    assert [type(result) for result in results] == [WriteFailed, Written]
    assert len(store.zk.transactions) == 1


async def test_each_group_is_weighed_by_its_own_operations_even_if_another_is_empty() -> None:
    """As many operations as groups do not mean one operation in each group."""
    half = b"x" * (MAX_SINGLE_BYTES // 2)
    work = as_wholes([(), (SetData("/a", half, 0), SetData("/b", half, 0))])

    await work.weigh()

    assert [isinstance(result, WriteFailed) for result in work.results] == [False, True]


async def test_groups_are_fenced(store: FakeStore) -> None:
    store.depose()

    with pytest.raises(ControllerMoved):
        await store.writer.write_groups([creation("u")])

    assert store.writes == []


async def test_no_groups_need_no_request(store: FakeStore) -> None:
    assert await store.writer.write_groups([]) == []
    assert store.zk.transactions == []


def test_one_transaction_does_not_suspend_over_the_fake(store: FakeStore) -> None:
    seen: list[int] = []

    async def everything() -> None:
        seen.append(len(await store.states.update_states(states_of("t", 400))))

    run(everything())
    assert seen == [400]


def test_a_bounced_broker_has_a_larger_epoch(store: FakeStore) -> None:
    first = store.add_broker(1)
    assert store.add_broker(1).epoch > first.epoch


def test_the_fake_returns_the_present_topic_and_state(store: FakeStore) -> None:
    topic, state = store.topic("t"), store.state(T0)
    assert topic is not None
    assert topic.assignments[0].replicas == (1, 2)
    assert state == states_of("t", 1)[T0]
    assert store.topic("none") is None


NODE = Znode(b"data", 3, 1)


@pytest.mark.parametrize(
    ("operation", "node", "effect"),
    [
        (SetData("/a", b"data", 2), NODE, Written(3)),
        (SetData("/a", b"data", ANY_VERSION), NODE, Written(3)),
        (SetData("/a", b"data", 1), NODE, None),
        (SetData("/a", b"other", 2), NODE, None),
        (SetData("/a", b"data", 2), None, None),
        (Create("/a", b"data"), NODE, None),
        (Delete("/a"), None, None),
    ],
)
def test_the_effect_of_a_write_is_judged_by_its_znode(
    operation: SetData | Create | Delete, node: Znode | None, effect: Written | None
) -> None:
    assert effect_of(operation, node) == effect


@pytest.mark.parametrize(
    ("operation", "node", "result"),
    [
        (SetData("/a", b"x", 3), NODE, None),
        (SetData("/a", b"x", ANY_VERSION), NODE, None),
        (SetData("/a", b"x", 2), NODE, Conflict("version 3 instead of 2")),
        (SetData("/a", b"x", 2), None, Conflict("the znode is gone")),
        (Create("/a", b"data"), NODE, Written(3)),
        (Create("/a", b"data", ephemeral=True), NODE, Conflict("the znode exists already")),
        (Create("/a", b"x"), NODE, Conflict("the znode exists already")),
        (Create("/a", b"x"), None, None),
        (Delete("/a"), None, Written(-1)),
        (Delete("/a"), NODE, None),
        (Delete("/a", 2), NODE, Conflict("version 3 instead of 2")),
    ],
)
def test_a_failed_operation_is_judged_by_its_znode(
    operation: SetData | Create | Delete, node: Znode | None, result: Written | Conflict | None
) -> None:
    assert conflict_of(operation, node) == result


async def test_the_fake_can_start_with_another_controller(store: FakeStore) -> None:
    other = FakeStore(store.tree, session_id=2)
    other.tree.put(paths.broker(BrokerId(1)), codecs.encode_broker(store.add_broker(2)))
    assert not await FakeElector(other).is_ours()
    assert await FakeElector(store).is_ours()
