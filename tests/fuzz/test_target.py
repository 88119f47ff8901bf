"""A run ends, whatever state earlier clients have left in the cluster."""

from tests.fuzz.target import KEPT, target


async def test_a_topic_on_a_broker_that_never_was_goes_like_any_other() -> None:
    async with target() as under_test:
        await under_test.put_in_order()
        async with under_test.client() as client:
            by_hand = {"name": "far", "num_partitions": -1, "replication_factor": -1, "configs": ()}
            rows = [{**by_hand, "assignments": [{"partition_index": 0, "broker_ids": (9,)}]}]
            await client.ask(19, 7, topics=rows)
        await under_test.events_handled()
        assert "far" in under_test.world.snapshot.topics

        await under_test.settled()

        assert set(under_test.world.tree.children("/brokers/topics") or ()) == set(KEPT)
        assert "9" not in (under_test.world.tree.children("/brokers/ids") or ())
