"""``/v1/brokers``: who is alive, how the load is spread, and what waits for each."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.core.model import BrokerId
from controllerd.explain.history import transitions_of_broker
from controllerd.pace import Pace
from controllerd.status.answers import answer
from controllerd.status.problems import Refused
from controllerd.status.reads.context import BROKER, Reading, reading
from controllerd.status.reads.loads import Load
from controllerd.status.routing import Route
from controllerd.status.schema.cluster import BrokerDetail, BrokerItem, BrokerList
from controllerd.status.schema.status import BrokerStatus
from controllerd.status.view import view_brokers
from controllerd.views import ClusterView

_PENDING: Final = 100
_NO_LOAD: Final = Load()


class BrokerReads:
    """All brokers, and single ones."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """All under ``/v1/brokers`` that only reads."""
        one = (BROKER,)
        return [
            reading("/v1/brokers", self.list, "Brokers that live, or have replicas", BrokerList),
            reading(
                "/v1/brokers/{id}",
                self.one,
                "One broker, what waits for it, and what happened to it",
                BrokerDetail,
                path_parameters=one,
            ),
        ]

    async def list(self, _request: web.Request) -> web.Response:
        """By id."""
        items = await self.items(await self._reading.pace())
        snapshot = self._reading.sources.snapshot()
        registered = snapshot.node_id if snapshot.registered else None
        meta = self._reading.meta()
        return answer(BrokerList(meta=meta, items=list(items.values()), registered_controller=registered))

    async def one(self, request: web.Request) -> web.Response:
        """:raises Refused: nobody has heard of this broker."""
        broker, pace = BrokerId(int(request.match_info["id"])), await self._reading.pace()
        item = (await self.items(pace)).get(broker)
        if item is None:
            detail = f"broker {broker} is not registered, and no replica is assigned to it"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_broker", detail, "GET /v1/brokers lists the known ones")
        entries = tuple(self._reading.sources.recent.newest_first())
        transitions = await pace.run(transitions_of_broker(entries, broker))
        pending = self._reading.pending(broker, _PENDING)
        return answer(BrokerDetail(meta=self._reading.meta(), broker=item, pending=pending, transitions=transitions))

    async def items(self, pace: Pace) -> dict[int, BrokerItem]:
        """Everybody who lives or has replicas, in order of the ids."""
        sources = self._reading.sources
        loads = await self._reading.tally.loads(sources.snapshot(), pace)
        snapshot = sources.snapshot()
        alive = {status.id: status for status in view_brokers(snapshot, sources)}
        mean = _mean_leaders(loads, snapshot)
        known = sorted({*alive, *loads})
        return {broker: view_broker_item(broker, alive.get(broker), loads, mean) for broker in known}


def _mean_leaders(loads: Mapping[BrokerId, Load], snapshot: ClusterView) -> float:
    led = sum(loads.get(broker, _NO_LOAD).leaders for broker in snapshot.brokers)
    return led / len(snapshot.brokers) if snapshot.brokers else 0.0


def view_broker_item(
    broker: int, status: BrokerStatus | None, loads: Mapping[BrokerId, Load], mean: float
) -> BrokerItem:
    """One broker; ``mean``: leaderships per live broker."""
    load = loads.get(BrokerId(broker), _NO_LOAD)
    skew = (load.leaders - mean) / mean if mean else 0.0
    return BrokerItem(
        id=broker,
        alive=status is not None,
        status=status,
        leaders=load.leaders,
        preferred_leaders=load.preferred,
        replicas=load.replicas,
        offline_replicas=load.offline,
        imbalance_percent=_percent(load.led_by_others / load.preferred if load.preferred else 0.0),
        leader_skew_percent=_percent(skew),
    )


def _percent(share: float) -> float:
    return round(100 * share, 2)
