"""Group A, terms: the active instance and its epoch, the result of a failed event, and the status that shows it."""

import json
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from controllerd.daemon.node import ControllerNode
from controllerd.zk import paths
from events.cluster import Resign
from tests.scenarios.nodes import NODE, Rig, expire, fail_at_the_next_batch, session_of
from tests.zk.world import until

pytestmark = pytest.mark.zookeeper

OLD, NEW = "2.6", "3.9"


async def status_of(node: ControllerNode) -> Mapping[str, Any]:
    """The instance's status over HTTP."""
    url = f"http://127.0.0.1:{node.http_port}/v1/status"
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        found: Mapping[str, Any] = (await answer.json())["status"]
        return found


async def test_a1_the_first_controller_of_an_empty_zookeeper_has_epoch_one(rig: Rig) -> None:
    async with rig.node():
        epoch = await rig.peer.node(paths.CONTROLLER_EPOCH)

        assert epoch is not None
        assert (epoch.data, epoch.version) == (b"1", 1)
        assert await rig.holder() == NODE


async def test_a2_the_epoch_outlives_the_controller(rig: Rig) -> None:
    async with rig.node():
        pass

    assert await rig.peer.node(paths.CONTROLLER) is None
    assert await rig.epoch() == 1


async def test_a3_every_start_raises_the_epoch_by_exactly_one(rig: Rig) -> None:
    for epoch in (1, 2, 3):
        async with rig.node() as node:
            assert (await rig.epoch(), node.snapshot.controller_epoch) == (epoch, epoch)


async def test_a8_an_event_that_fails_half_way_begins_a_new_term_in_which_nothing_of_the_old_one_is_left_history_60(
    rig: Rig,
) -> None:
    async with rig.brokers(1, 2), rig.node() as node:
        owner = await rig.peer.node(paths.CONTROLLER)
        fail_at_the_next_batch(node)
        await rig.peer.add_topic("t", [[1, 2]])
        await rig.led_by("t", 1)
        await until(lambda: node.snapshot.is_active and node.snapshot.controller_epoch == 2)

        now = await rig.peer.node(paths.CONTROLLER)
        assert owner is not None
        assert now is not None
        assert now.czxid > owner.czxid
        assert {state.controller_epoch for state in (await rig.states("t", 1)).values()} == {2}


async def test_a8_an_event_that_fails_again_and_again_leaves_the_role_to_the_standby(rig: Rig) -> None:
    async with rig.brokers(1, 2), rig.node() as broken, rig.node(NODE + 1, leads=False) as standby:
        for topic in "tuv":
            fail_at_the_next_batch(broken)
            await rig.peer.add_topic(topic, [[1, 2]])
            await rig.led_by(topic, 1)
        await until(lambda: standby.snapshot.is_active)

        assert await rig.holder() == NODE + 1
        assert standby.snapshot.controller_epoch == 4
        assert broken.instance.channels is not None
        assert broken.instance.channels.stats() == []


@pytest.mark.parametrize(
    ("version", "before", "after"),
    [
        (NEW, None, (1, 0)),
        (NEW, 0, (1, 1)),
        (NEW, 1, (1, 0)),
        (OLD, None, (0, 0)),
        (OLD, 1, (0, 1)),
        (OLD, 0, (0, 0)),
    ],
)
async def test_a17_the_feature_znode_is_set_up_for_the_protocol_version(
    rig: Rig, version: str, before: int | None, after: tuple[int, int]
) -> None:
    """``before`` and ``after`` are the znode's status, 1 for enabled, and ``after`` its version as well."""
    if before is not None:
        await rig.peer.put(paths.FEATURE, json.dumps({"features": {}, "version": 2, "status": before}).encode())

    mode = "hidden" if version == OLD else "visible"
    async with rig.node(kafka__inter_broker_protocol_version=version, kafka__mode=mode):
        node = await rig.peer.node(paths.FEATURE)

    assert node is not None
    assert (json.loads(node.data or b"")["status"], node.version) == after


async def test_a18_without_a_controller_no_earlier_one_is_shown(rig: Rig) -> None:
    async with rig.node() as node:
        assert (await status_of(node))["holder"]["node_id"] == NODE

        await node.instance.queue.call(Resign())

        assert await rig.holder() == -1
        assert (await status_of(node))["holder"] is None


async def test_a18_after_the_session_no_controller_is_shown(rig: Rig) -> None:
    async with rig.node() as node:
        rig.proxy.is_open = False
        await expire(session_of(node), rig.server)
        rig.proxy.cut()
        session_of(node).declare_lost("the test says so")
        await until(lambda: not node.snapshot.is_active and len(node.instance.queue) == 0)

        assert (await status_of(node))["holder"] is None
        rig.proxy.is_open = True
        await until(lambda: node.snapshot.is_active)
        assert (await status_of(node))["holder"]["node_id"] == NODE
