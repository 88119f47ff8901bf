"""The admin requests of the simulated cluster, by call and by znode, as the judge and the ledger note them."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import ControllerdError
from events.admin import ForgetBroker
from events.base import Call
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment
from tests.fakes.requester import ALICE
from tests.sim.oracle_history import document_of
from tests.sim.oracle_seen import Key
from tests.sim.zk_tree import Change, Txn

if TYPE_CHECKING:
    from tests.sim.instance import SimInstance
    from tests.sim.world import SimWorld

TOPICS: Final = "/brokers/topics/"
MARKERS: Final = "/admin/delete_topics/"
CONFIGS: Final = "/config/topics/"
BROKER_DEFAULTS: Final = "/config/brokers/<default>"
REASSIGNMENTS: Final = "/admin/reassign_partitions"
PREFERRED: Final = "/admin/preferred_replica_election"
_CHANGES: Final = "/config/changes/config_change_"
_IDS: Final = "/brokers/ids/"
_UNCLEAN: Final = "unclean.leader.election.enable"
_GIVES_UP_AFTER: Final = 40
_AGAIN_S: Final = 2.0
_FORGETS_AGAIN_S: Final = 40.0


class AdminClient:
    """The admin client of one world."""

    def __init__(self, world: "SimWorld") -> None:
        self.world = world
        self.dead_for_good: set[int] = set()
        """Brokers that no action of the story starts again."""
        self.forbade: set[int] = set()
        """Brokers whose file had a setting that keeps every instance from leading."""
        self.asked = world.oracle.zookeeper.history.asked
        self._is_unclean_by_default = self._files_allow = world.options.unclean
        self._dynamic_default: bool | None = None
        admin = world.oracle.zookeeper.admin
        admin.holds, admin.deletes = self._holds, world.options.admin.deletes
        world.oracle.requests.deleted_earlier = self._deleted_earlier
        world.server.observers.append(self._committed)
        world.cluster.on_bad_dirs.append(world.oracle.zookeeper.on_bad_log_dir)

    def opened(self) -> None:
        """Take note of the brokers, once the world has created them."""
        for broker in self.world.cluster.brokers.values():
            broker.dirs.count = self.world.options.admin.log_dirs
        self._decide_default(self.world.loop.time())

    def _holds(self, broker: int, key: Key) -> bool:
        found = self.world.cluster.brokers.get(broker)
        return found is not None and key in found.disk

    def _deleted_earlier(self, broker: int, key: Key) -> bool:
        found, topic = self.world.cluster.brokers.get(broker), self.world.oracle.zookeeper.history.documents.get(key[0])
        deleted = None if found is None else found.deleted.get(key)
        return deleted is not None and topic is not None and topic.get("topic_id") not in {None, deleted}

    # -- notes for the judge and the ledger --------------------------------------------------------------------------

    def _committed(self, txn: Txn) -> None:
        for change in txn.changes:
            path = change.path
            if path.startswith((CONFIGS, BROKER_DEFAULTS)):
                self._configured(path, change, txn.time)
            elif path.startswith(MARKERS):
                marked = self.world.cluster.ledger.being_deleted
                (marked.discard if change.op == "delete" else marked.add)(path.removeprefix(MARKERS))
            elif path.startswith(TOPICS) and "/" not in path.removeprefix(TOPICS):
                self._topic_changed(path.removeprefix(TOPICS), change)
            elif path.startswith(_IDS) and change.op == "create":
                self._registered(int(path.removeprefix(_IDS)))

    def _configured(self, path: str, change: Change, now: float) -> None:
        allows = _allows_unclean(change.data)
        ledger = self.world.cluster.ledger
        if path != BROKER_DEFAULTS:
            if allows:
                ledger.unclean_allowed.add(path.removeprefix(CONFIGS))
            return
        self._dynamic_default = allows
        self._decide_default(now)

    def files_allow(self, *, allowed: bool) -> None:
        """Set whether the files of all brokers allow unclean elections from now on.

        False stands for one file that forbids them.
        """
        self._files_allow = allowed
        self._decide_default(self.world.loop.time())

    def _decide_default(self, now: float) -> None:
        """Decide the default for all topics.

        A broker's own dynamic configuration overrides the dynamic default, which overrides the files.
        """
        options, is_by_files = self.world.options, self._dynamic_default is None
        allowed = self._files_allow if self._dynamic_default is None else self._dynamic_default
        self._is_unclean_by_default = allowed and not options.is_clean_by_own
        if self._is_unclean_by_default:
            self.world.cluster.ledger.unclean_allowed.update(self.world.topics)
        self.world.oracle.zookeeper.on_unclean_default(
            now, allowed=self._is_unclean_by_default, by_files=is_by_files and options.only_clean > 0
        )

    def _topic_changed(self, topic: str, change: Change) -> None:
        ledger = self.world.cluster.ledger
        if change.op == "delete":
            ledger.forget_topic(topic)
        elif change.op == "create" and self._is_unclean_by_default:
            ledger.unclean_allowed.add(topic)

    def _registered(self, broker: int) -> None:
        found = self.world.cluster.brokers.get(broker)
        if found is None:
            return
        if found.dirs.failed:
            self.world.oracle.zookeeper.on_bad_log_dir(broker)
        file = (
            found.configured if found.life is None else found.life.configured
        )  # a new process registers, or a session
        self.world.oracle.zookeeper.history.starts(broker, is_clean=file.get(_UNCLEAN) == "false")

    # -- requests by call --------------------------------------------------------------------------------------------

    async def call(self, call: Call[Any], attempts: int = 5) -> Any:
        """Send the call to the active instance until it answers; None if no instance answers, or if it refuses."""
        for _ in range(attempts):
            target = self.active()
            if target is not None:
                with suppress(ControllerdError, OSError):
                    return await self.world._ask_instance(target, call)
            await asyncio.sleep(_AGAIN_S)
        return None

    def active(self) -> "SimInstance | None":
        """The running instance that believes to be the active controller, None if there is none."""
        return next((each for each in self.world.instances.values() if each.is_active and each.is_running), None)

    def reassign(self, targets: Mapping[Key, Iterable[int] | None]) -> None:
        """Send AlterPartitionReassignments; a target of None cancels."""
        wanted = {key: None if target is None else tuple(target) for key, target in targets.items()}
        for key, target in wanted.items():
            self.asked.reassignment(key, target)
        asked = {
            TopicPartition(*key): None if target is None else tuple(map(BrokerId, target))
            for key, target in wanted.items()
        }
        self.world.do(self._reassigned(ApiPartitionReassignment(ALICE, asked)))

    async def _reassigned(self, call: ApiPartitionReassignment) -> None:
        await self.call(call)
        # The call may have been carried out at any time until now.
        for tp in call.targets:
            self.asked.answered((tp.topic, tp.partition), self.world.loop.time())

    def elect(self, kind: ElectionType, partitions: Iterable[Key]) -> None:
        """Send ElectLeaders."""
        keys = list(partitions)
        if kind is ElectionType.UNCLEAN:
            self.asked.unclean.update(keys)
            self.world.cluster.ledger.unclean_allowed.update(topic for topic, _ in keys)
        wanted = frozenset(TopicPartition(*key) for key in keys)
        self.world.do(self.call(ReplicaLeaderElection(wanted, kind, ElectionTrigger.ADMIN_CLIENT, ALICE)))

    # -- requests by znode -------------------------------------------------------------------------------------------

    def write_reassignments(self, targets: Mapping[Key, Iterable[int]]) -> None:
        """Write the reassignment znode as the tool does."""
        rows = [{"topic": t, "partition": p, "replicas": list(r)} for (t, p), r in targets.items()]
        self.world.server.put(REASSIGNMENTS, json.dumps({"version": 1, "partitions": rows}).encode())

    def write_preferred(self, partitions: Iterable[Key]) -> None:
        """Write the preferred election znode as the tool does."""
        rows = [{"topic": topic, "partition": number} for topic, number in partitions]
        self.world.server.put(PREFERRED, json.dumps({"version": 1, "partitions": rows}).encode())

    def delete_topic(self, topic: str) -> None:
        """Mark the topic for deletion as brokers do."""
        self.world.server.put(MARKERS + topic)

    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Write a dynamic configuration (``topics/orders``) and its notification."""
        server = self.world.server
        server.put(f"/config/{entity}", json.dumps({"version": 1, "config": dict(config)}).encode())
        server.put_sequential(_CHANGES, json.dumps({"version": 2, "entity_path": entity}).encode())

    def allow_unclean(self, entity: str, *, allowed: bool | None) -> None:
        """Set ``unclean.leader.election.enable`` of a topic, or of all brokers; None removes it."""
        self.configure(entity, {} if allowed is None else {_UNCLEAN: str(allowed).lower()})

    # -- the end -----------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Mend the disks and restart their brokers, which must start anew to use them again."""
        if REASSIGNMENTS in self.world.server.nodes and self.asked.is_unreadable_request:
            self.world.server.remove(REASSIGNMENTS)
        self.files_allow(allowed=self.world.options.unclean)
        for broker in self.world.cluster.brokers.values():
            if broker.dirs.failed and self.world.options.admin.mends:
                broker.dirs.mend()
                if broker.is_running:
                    broker.bounce()

    def give_up_dead_brokers(self) -> None:
        """Forget the brokers that never return, so that no deletion waits for them for ever."""
        for broker in sorted(self.dead_for_good):
            if not self.world.cluster.brokers[broker].is_running:
                self.world.do(self._give_up(broker))

    async def _give_up(self, broker: int) -> None:
        await self.forget(broker, attempts=_GIVES_UP_AFTER)
        # Once more: the controller may not have noticed a deletion that was requested right before.
        await asyncio.sleep(_FORGETS_AGAIN_S)
        if await self.forget(broker, attempts=_GIVES_UP_AFTER) is not None:
            self.asked.given_up.add(broker)

    async def forget(self, broker: int, attempts: int = 5) -> Any:
        """Declare, as an operator does, that a broker never returns."""
        self.asked.forget(broker, self.world.loop.time())
        return await self.call(ForgetBroker(BrokerId(broker), "it burnt"), attempts)


def _allows_unclean(data: bytes | None) -> bool | None:
    document = document_of(data) or {}
    value = (document.get("config") or {}).get(_UNCLEAN)
    return None if value is None else value == "true"
