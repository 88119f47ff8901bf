"""An operator with an HTTP client in front of a whole controller over a ZooKeeper in memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from controllerd.config.model import Address, HttpConfig
from controllerd.core.model import BrokerId
from controllerd.recent import Recent
from controllerd.record.families.operators import AdminRecord
from controllerd.status.schema.common import Problem
from controllerd.status.schema.tasks import Task, TaskItem, TaskList, TaskResponse
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView, StatusSources
from controllerd.views import SessionView, WorkerView
from events.reassignments import ListPartitionReassignments
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.fakes.world import INSTANCE, NODE_ID, World, ids, topic_id_of

Body = Mapping[str, Any]


class Operator:
    """Sends verbs and follows their tasks."""

    def __init__(self, http: aiohttp.ClientSession, url: str, world: World) -> None:
        self.world = world
        self.http = http
        self.url = url

    async def send(self, path: str, body: Body, **headers: str) -> tuple[int, bytes, str | None]:
        """Send a verb, and return status, body and Location of the answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(self.url + path, json=body, headers=sent) as response:
            return response.status, await response.read(), response.headers.get("Location")

    async def ask(self, path: str, body: Body, **headers: str) -> Task:
        """Send a verb, and return its task."""
        status, answer, location = await self.send(path, body, **headers)
        assert status in {200, 202}, answer
        task = msgspec.json.decode(answer, type=TaskResponse).task
        assert location == (f"/v1/tasks/{task.id}" if status == 202 else None)
        return task

    async def do(self, path: str, body: Body, **headers: str) -> Task:
        """Send a verb, and return its task at the end."""
        return await self.end_of(await self.ask(path, body, **headers))

    async def dry_run(self, path: str, body: Body) -> Task:
        """Send a dry run, check that nothing changed, and return its task."""
        before = content(self.world)
        task = await self.ask(f"{path}?dryRun=true", body)
        assert task.state == "planned"
        assert content(self.world) == before
        assert await self.tasks() == []
        return task

    async def refusal(self, path: str, body: Body, **headers: str) -> Problem:
        """Send a request that is refused, and return the problem."""
        status, answer, _ = await self.send(path, body, **headers)
        problem = msgspec.json.decode(answer, type=Problem)
        assert problem.status == status >= 400
        return problem

    async def task(self, task_id: str) -> Task:
        """Read a task."""
        async with self.http.get(f"{self.url}/v1/tasks/{task_id}") as response:
            return msgspec.json.decode(await response.read(), type=TaskResponse).task

    async def tasks(self) -> list[Task]:
        """Read all kept tasks."""
        async with self.http.get(f"{self.url}/v1/tasks") as response:
            return msgspec.json.decode(await response.read(), type=TaskList).items

    async def end_of(self, task: Task) -> Task:
        """Wait for the end of a task, and return it."""
        while task.state == "running":
            task = await self.task(task.id)
        return task

    async def until(self, task: Task, message: str) -> Task:
        """Wait until the message of a task or the detail of an item contains this text, and return the task."""
        while not any(message in text for text in (task.message, *(item.detail for item in task.items))):
            assert task.state == "running", task
            task = await self.task(task.id)
        return task

    async def settle(self) -> None:
        """Wait until the loop has handled every waiting event, and the events that follow from it."""
        while len(self.world.queue) or self.world.loop.current is not None:
            await self.world.queue.call(ListPartitionReassignments(frozenset()))

    async def change_isr(self, topic: str, *isr: int, partition: int = 0) -> None:
        """Send AlterPartition with this ISR as the leader of a partition, and wait for the effect."""
        world = self.world
        leader, leader_epoch, _, version = world.state(topic, partition)
        proposed = {(topic_id_of(topic), partition): ProposedIsr(leader_epoch, version, ids(*isr))}
        epoch = world.tree.nodes[f"/brokers/ids/{leader}"].czxid
        await world.queue.call(AlterPartitionReceived(BrokerId(leader), epoch, 3, {}, proposed))
        await self.settle()

    @property
    def recorded(self) -> list[AdminRecord]:
        """The audit records of verbs."""
        return self.world.audit.of(AdminRecord)


def content(world: World) -> dict[str, tuple[bytes | None, int]]:
    """Everything in ZooKeeper."""
    return {path: (node.data, node.version) for path, node in world.tree.nodes.items()}


def briefly(items: list[TaskItem]) -> dict[str, str]:
    """The items as state and detail by subject."""
    return {item.subject: " ".join(filter(None, (item.state, item.kafka_error, item.detail))) for item in items}


def sources_of(world: World) -> StatusSources:
    """The sources of a status server for a world."""
    return StatusSources(
        instance=INSTANCE,
        queue=world.queue,
        snapshot=lambda: world.snapshot,
        worker=WorkerView,
        channels=dict,
        session=lambda: SessionView("connected", 1, 1),
        audit=AuditView,
        now_ms=world.clock.now_ms,
        recent=Recent(world.clock),
        record=world.bus.record,
    )


@asynccontextmanager
async def operating(world: World, *, require_reason: bool = False, timeout_s: float = 5.0) -> AsyncIterator[Operator]:
    """An operator of this world; its events are handled while the block runs."""
    config = HttpConfig(listen=Address("127.0.0.1", 0), require_reason=require_reason)
    server = StatusServer(sources_of(world), config, admin_timeout_s=timeout_s)
    port = await server.start()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as http, asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(_handle_events(world))
        try:
            yield Operator(http, f"http://127.0.0.1:{port}", world)
        finally:
            loop.cancel()
            await server.close()


async def standby_of(world: World) -> World:
    """Another instance over the same ZooKeeper, which does not lead."""
    standby = World(tree=world.tree, session_id=77, node_id=NODE_ID + 1, instance=str(uuid4()))
    return await standby.start()


async def _handle_events(world: World) -> None:
    while True:
        await world.loop.handle(await world.queue.take())
