"""Topics and partitions that are absent or quarantined."""

import pytest

from controllerd.zk.access import SetData
from tests.explain.seeding import Seeded, codes
from tests.scenarios.acts import take_over

STATE = "/brokers/topics/payments/partitions/0/state"


@pytest.mark.parametrize("typed", ["paymens", "payment", "Payments", "pay.ments", "pyaments", "payments-eu"])
async def test_a_similar_name_is_suggested_for_a_mistyped_topic(typed: str) -> None:
    seeded = await Seeded(3).start([3])
    await seeded.create("orders", [3])

    why = await seeded.why_topic(typed)

    assert (why.condition, why.severity, codes(why)) == ("unknown", "warning", ["no-such-topic"])
    assert why.causes[0].sentence == f"there is no topic {typed}; did you mean payments?"
    assert why.next == ["controllerctl why payments"]


async def test_nothing_is_suggested_without_a_similar_name() -> None:
    seeded = await Seeded(3).start([3])

    why = await seeded.why_topic("clicks")

    assert why.causes[0].sentence == "there is no topic clicks"
    assert why.next == ["controllerctl get topics"]


async def test_a_partition_that_does_not_exist() -> None:
    seeded = await Seeded(3).start([3], partitions=6)

    why = await seeded.why(partition=6)

    assert (why.condition, codes(why)) == ("unknown", ["no-such-partition"])
    assert why.causes[0].sentence == "topic payments has 6 partitions, the last is payments-5"


async def test_a_topic_znode_that_cannot_be_understood() -> None:
    seeded = await Seeded(3).start()
    seeded.world.tree.put("/brokers/topics/payments", b"{")
    await seeded.disks.settle()

    why = await seeded.why_topic()

    assert (why.condition, why.severity, codes(why)) == ("quarantined", "critical", ["quarantined-topic"])
    assert why.headline == "payments is LEFT ALONE: /brokers/topics/payments cannot be understood"
    assert "is left alone: " in why.causes[0].sentence
    assert codes(await seeded.why()) == ["quarantined-topic"]


async def test_a_state_that_cannot_be_understood() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    node = seeded.world.tree.nodes[STATE]
    seeded.world.tree.outsider(SetData(STATE, b"{", node.version))
    seeded.world = await take_over(seeded.world)

    why = await seeded.why()

    assert (why.condition, why.severity, codes(why)[0]) == ("quarantined", "critical", "quarantined-state")
    assert why.headline == f"payments-0 is LEFT ALONE: {STATE} cannot be understood"
    assert why.next == [
        f"correct {STATE} (the audit log has its content): the controller reads it again without a command"
    ]


async def test_the_topic_of_a_quarantined_partition_has_the_same_cause() -> None:
    seeded = await Seeded(3, 5).start([5, 3], partitions=3)
    node = seeded.world.tree.nodes[STATE]
    seeded.world.tree.outsider(SetData(STATE, b"{", node.version))
    seeded.world = await take_over(seeded.world)

    why = await seeded.why_topic()

    assert (why.condition, codes(why)) == ("quarantined", ["quarantined-state"])
    assert len(why.others) == 1
