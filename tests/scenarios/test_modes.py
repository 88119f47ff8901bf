"""The controller's own entry in the metadata: ``visible``, ``internal`` and ``hidden``."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.daemon.announcing import ready_line
from controllerd.daemon.node import ControllerNode
from controllerd.errors import RefusedToLead
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from tests.channel_manager.stub_broker import StubBroker, stub_broker
from tests.scenarios.nodes import NODE, Rig
from wire.metadata import ClusterMetadata, fetch_metadata

pytestmark = pytest.mark.zookeeper

LISTENERS = "INTERNAL://127.0.0.1:0,CONTROL://127.0.0.1:0,CLIENTS://127.0.0.1:0"
VISIBLE, INTERNAL = {"kafka__mode": "visible"}, {"kafka__mode": "internal"}
HIDDEN = {"kafka__mode": "hidden", "kafka__inter_broker_protocol_version": "2.6"}
MODES = ["visible", "internal", "hidden"]


def node(
    rig: Rig, settings: Mapping[str, str], listeners: str | tuple[str, ...] = LISTENERS
) -> AbstractAsyncContextManager[ControllerNode]:
    """A controller of a cluster with a control plane."""
    return rig.node(
        NODE,
        leads=True,
        kafka__listeners=listeners,
        kafka__inter_broker_listener_name="INTERNAL",
        kafka__control_plane_listener_name="CONTROL",
        **settings,
    )


@asynccontextmanager
async def broker(rig: Rig, *more: Endpoint) -> AsyncIterator[tuple[StubBroker, StubBroker]]:
    """A registered broker: the requests at its control plane, and the requests at its other listeners."""
    async with stub_broker() as control, stub_broker() as data:
        ends = (
            Endpoint("INTERNAL", "127.0.0.1", data.port),
            Endpoint("CONTROL", "127.0.0.1", control.port),
            Endpoint("CLIENTS", "127.0.0.1", data.port),
        )
        await rig.peer.store.cluster.ensure_paths()
        registered = codecs.encode_broker(Broker(BrokerId(1), 0, ends + more))
        await rig.peer.act(Create(paths.broker(BrokerId(1)), registered, ephemeral=True))
        yield control, data


def own_listeners(entity: Any) -> list[str] | None:
    """The listeners of the controller's own entry in an UpdateMetadata; None without an entry."""
    entry = next((live for live in entity.live_brokers if live.id_ == NODE), None)
    return None if entry is None else [endpoint.listener for endpoint in entry.endpoints]


async def seen_on(node: ControllerNode, listener: str) -> ClusterMetadata:
    """The metadata that a client of this listener of the controller gets."""
    own = next(endpoint for endpoint in node.kafka.advertised if endpoint.listener == listener)
    return await fetch_metadata(own.host, own.port, timeout_s=10)


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        (VISIBLE, ["INTERNAL", "CONTROL", "CLIENTS"]),
        (INTERNAL, ["INTERNAL", "CONTROL"]),
        (HIDDEN, None),
    ],
    ids=MODES,
)
async def test_brokers_get_the_listeners_of_the_mode_over_their_control_plane(
    rig: Rig, settings: Mapping[str, str], sent: list[str] | None
) -> None:
    async with broker(rig) as (control, data), node(rig, settings):
        [first, *_] = await control.got_so_many(1)

        assert first.entity.controller_id == NODE
        assert own_listeners(first.entity) == sent
        assert data.got == []


@pytest.mark.parametrize("settings", [VISIBLE, INTERNAL, HIDDEN], ids=MODES)
async def test_a_client_of_the_controller_sees_it_in_every_mode(rig: Rig, settings: Mapping[str, str]) -> None:
    async with broker(rig), node(rig, settings) as ours:
        for own in ours.kafka.advertised:
            seen = await seen_on(ours, own.listener)

            assert seen.controller_id == NODE
            assert seen.brokers[NODE].port == own.port


async def test_a_hidden_controller_needs_no_listener_and_opens_none(rig: Rig) -> None:
    async with broker(rig) as (control, _), node(rig, HIDDEN, ()) as ours:
        await control.got_so_many(1)

        assert ours.kafka.advertised == ()
        assert "kafka none" in ready_line(ours)


async def test_a_listener_whose_clients_see_no_controller_is_shown_by_the_status(rig: Rig) -> None:
    edge = Endpoint("EDGE", "127.0.0.1", 9, SecurityProtocol.SASL_SSL)
    async with broker(rig, edge), node(rig, VISIBLE) as ours:
        url = f"http://127.0.0.1:{ours.http_port}/v1/status"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            status = (await answer.json())["status"]

    assert status["uncovered"] == [{"listener": "EDGE", "reason": "not among kafka.listeners (on broker 1)"}]


@pytest.mark.parametrize("settings", [VISIBLE, INTERNAL, HIDDEN], ids=MODES)
async def test_in_no_mode_is_a_cluster_led_whose_brokers_are_to_be_talked_to_over_tls(
    rig: Rig, settings: Mapping[str, str]
) -> None:
    protected = Endpoint("CONTROL", "127.0.0.1", 9, SecurityProtocol.SSL)
    registered = codecs.encode_broker(Broker(BrokerId(1), 0, (protected,)))
    await rig.peer.store.cluster.ensure_paths()
    await rig.peer.act(Create(paths.broker(BrokerId(1)), registered, ephemeral=True))

    with pytest.raises(RefusedToLead, match="broker 1 asks for SSL on CONTROL: TLS and SASL are not supported yet"):
        async with node(rig, settings):
            pass

    assert await rig.peer.node(paths.CONTROLLER) is None
