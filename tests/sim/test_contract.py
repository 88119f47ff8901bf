"""One sequence of operations, three ZooKeepers: the real server, the simulated one, and the fake of the unit tests.

Hypothesis makes the sequences; the production classes (``ZooKeeperSession`` and ``KazooZooKeeper``) carry them out on
the real and on the simulated server, with the same bytes on the wire. Everything that the production code can see is
compared:
versions, codes and the index of the operation that failed, data, owners, children, which watch fired with what and in
which order, and the order of czxids.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kazoo.protocol.states import Callback

from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.zk.access import (
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Fired,
    Operation,
    SetData,
    Znode,
    ZooKeeper,
)
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.driver import THREADED, KazooDriver
from controllerd.zk.multiread import MultiRead, SetWatches
from controllerd.zk.session import ZooKeeperSession
from tests.fakes.audit import RecordingAudit
from tests.fakes.zookeeper import FakeZooKeeper, Tree
from tests.sim.loop import VirtualLoop
from tests.sim.zk_client import SimKazoo
from tests.sim.zk_server import SimZooKeeper
from tests.zk.world import Events

pytestmark = [
    pytest.mark.zookeeper,
    # kazoo's threads draw their jitter at any time, also while Hypothesis makes a sequence.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]

SESSION_MS = 20_000
WHO = ("ours", "theirs")
FEW = ("a", "b", "a/c", "a/d", "b/e")
MANY = (*FEW, *(f"m{number}" for number in range(14)))
"""More names than are read one by one."""
NUMBERED = ("s", "a", "a/s", "a/c", "b/")
"""Prefixes of sequential znodes; some are znodes themselves, one is empty."""
Seen = list[object]


# operations


class Commit(NamedTuple):
    """Commit transactions, two in flight."""

    transactions: list[list[Operation]]


class Read(NamedTuple):
    """Read the data of many znodes."""

    names: tuple[str, ...]


class Watch(NamedTuple):
    """Read the data of many znodes with watches."""

    names: tuple[str, ...]
    absent_too: bool


class Children(NamedTuple):
    """Read the names below a znode; the empty name is the root of the sequence."""

    name: str
    watch: bool


class Mark(NamedTuple):
    """Remember the zxid of the server."""


class Rewatch(NamedTuple):
    """SetWatches with the zxid of the last mark."""

    existing: list[str]
    missing: list[str]


class Acls(NamedTuple):
    """Read whether all sessions may do everything."""

    names: tuple[str, ...]


class Leave(NamedTuple):
    """Close the session and open another one."""


Act = Commit | Read | Watch | Children | Mark | Rewatch | Acls | Leave
Script = list[tuple[str, Act]]

_few = st.sampled_from(FEW)
_name = st.sampled_from((*FEW, *FEW, "m0", "m1"))
_data = st.sampled_from((b"", b"x", b"yy"))
_version = st.sampled_from((-1, -1, 0, 0, 1, 2))
_operation = st.one_of(
    st.builds(SetData, _name, _data, _version),
    st.builds(Delete, _name, _version),
    st.builds(Create, _name, st.one_of(st.none(), _data), st.booleans()),
    st.builds(CheckVersion, _name, _version),
    st.builds(SetData, _few, _data, st.just(-1)),
    st.builds(Delete, _few, st.just(-1)),
    st.builds(Create, st.sampled_from(NUMBERED), _data, st.booleans(), st.just(True)),
)
_commit = st.builds(Commit, st.lists(st.lists(_operation, min_size=1, max_size=4), min_size=1, max_size=3))
_write = st.one_of(
    st.builds(lambda name, data: Commit([[SetData(name, data, -1)]]), _few, _data),
    st.builds(lambda name: Commit([[Delete(name)]]), _few),
    st.builds(lambda name, data: Commit([[Create(name, data)]]), _few, _data),
)
_names = st.one_of(st.lists(_few, min_size=1, max_size=3, unique=True).map(tuple), st.just(MANY))
_plain_read = st.one_of(st.builds(Read, _names), st.builds(Watch, _names, st.booleans()), st.builds(Acls, st.just(FEW)))
_any_act = st.one_of(
    _commit,
    _write,
    _write,
    _plain_read,
    st.builds(Children, st.sampled_from(("", *FEW)), st.booleans()),
    st.builds(Mark),
    st.builds(Rewatch, st.lists(_few, unique=True), st.lists(_few, unique=True)),
    st.builds(Leave),
)
_BEGINNING: Script = [
    ("ours", Commit([[Create("a", b"x"), Create("a/c", None), Create("b", b""), Create("a/d", b"d", ephemeral=True)]])),
    ("theirs", Commit([[Create("b/e", b"e", ephemeral=True)]])),
    ("ours", Mark()),
    ("theirs", Mark()),
]


def _scripts(act: st.SearchStrategy[Act], beginning: Script) -> st.SearchStrategy[Script]:
    step = st.tuples(st.sampled_from(WHO), act)
    return st.lists(step, min_size=4, max_size=20).map(lambda steps: [*beginning, *steps])


def _is_plain(commit: Commit) -> bool:
    return all(map(_each_written_once, commit.transactions)) and not any(
        isinstance(operation, Create) and operation[2:] == (True, False) and operation.path in {"a", "b"}
        for operations in commit.transactions
        for operation in operations
    )


def _each_written_once(operations: list[Operation]) -> bool:
    paths = [
        operation.path
        for operation in operations
        if not isinstance(operation, CheckVersion) and not _is_numbered(operation)
    ]
    return len(paths) == len(set(paths))


def _is_numbered(operation: Operation) -> bool:
    return isinstance(operation, Create) and operation.sequential


scripts = _scripts(_any_act, _BEGINNING)
# The fake implements no SetWatches, no watch on the children of a deleted znode, no ephemeral parents, and of a znode
# that one transaction writes twice only the last version.
_plain_children = st.builds(Children, st.just(""), st.booleans())
plain_scripts = _scripts(st.one_of(_commit.filter(_is_plain), _write, _plain_read, _plain_children), _BEGINNING[:2])


_NUMBERED = Create("a/s", b"", sequential=True)
NUMBERS: Script = [
    *_BEGINNING[:2],
    ("ours", Commit([[_NUMBERED, _NUMBERED], [Delete("a/c"), _NUMBERED], [_NUMBERED, CheckVersion("none", 0)]])),
    ("theirs", Commit([[_NUMBERED], [Create("a/c", b"", sequential=True)], [Delete("a/s0000000002"), _NUMBERED]])),
]
"""Several sequential creates in one transaction, after a deletion, after a refusal, beside a plain create."""


# the servers


class SessionUnderTest(Protocol):
    """One session of a compared server."""

    fired: list[tuple[str, Fired]]

    @property
    def zk(self) -> ZooKeeper:
        """The interface that is compared."""
        ...

    async def settle(self) -> None:
        """Wait until every fired watch was delivered."""
        ...

    async def leave(self) -> None:
        """Close the session and open another one."""
        ...

    async def mark(self, path: str) -> None:
        """Remember the zxid of the server."""
        ...

    async def rewatch(self, existing: list[str], missing: list[str]) -> None:
        """Send SetWatches since the mark."""
        ...


class Client:
    """A session by the production classes, on a real or simulated server."""

    def __init__(self, connect: str, driver: KazooDriver) -> None:
        self._connect = connect
        self._driver = driver
        self._marked = 0
        self.fired: list[tuple[str, Fired]] = []

    async def open(self) -> "Client":
        """Connect."""
        self.session = ZooKeeperSession(self._connect, SESSION_MS, Events(), RecordingAudit(), kazoo=self._driver)
        self.zk = KazooZooKeeper(self.session)
        self.zk.listen(lambda path, fired: self.fired.append((path, fired)))
        await self.session.open(20)
        return self

    async def settle(self) -> None:
        """Read once more: a watch comes before the response of a later read, and kazoo delivers watches in order."""
        await self.zk.read(["/"])
        handler = getattr(self.session.client, "handler", None)
        if handler is not None:
            loop, notified = asyncio.get_running_loop(), asyncio.Event()
            handler.dispatch_callback(Callback("watch", loop.call_soon_threadsafe, (notified.set,)))
            await notified.wait()

    async def leave(self) -> None:
        """Close the session and open another one."""
        self.zk.close()
        await self.session.close()
        await self.open()

    async def mark(self, path: str) -> None:
        """Remember the zxid of a MultiRead."""
        self._marked = (await self.session.ask(MultiRead([self.session.chroot + path]))).zxid

    async def rewatch(self, existing: list[str], missing: list[str]) -> None:
        """Send SetWatches with the chroot, as on the wire."""
        full = [[self.session.chroot + path for path in paths] for paths in (existing, missing)]
        await self.session.ask(
            SetWatches(self.session.client, self.zk._watcher(), self._marked, existing=full[0], missing=full[1])
        )


class Fake:
    """A session of the fake."""

    def __init__(self, tree: Tree, number: int) -> None:
        self.fake = FakeZooKeeper(tree, number)
        self.zk: ZooKeeper = self.fake
        self.fired: list[tuple[str, Fired]] = []
        self.fake.on_watch = lambda path, fired: self.fired.append((path, fired))

    async def settle(self) -> None:
        """Return at once: no watch of the fake is late."""

    async def leave(self) -> None:
        """Unused in a plain script."""
        raise AssertionError

    async def mark(self, path: str) -> None:
        """Unused in a plain script."""
        raise AssertionError

    async def rewatch(self, existing: list[str], missing: list[str]) -> None:
        """Unused in a plain script."""
        raise AssertionError


Parties = Mapping[str, SessionUnderTest]


# runs


@dataclass
class ScriptRun:
    """The run of one script on one ZooKeeper, below a root of its own."""

    parties: Parties
    root: str
    owners: dict[int, str] = field(default_factory=lambda: {0: "nobody"})

    async def run(self, script: Script) -> Seen:
        """Run the script.

        Return the results step by step, the creation order of the znodes, and all names at the end.
        """
        self._meet()
        (made,) = await self.parties["ours"].zk.commit([[Create(self.root, None)]])
        assert isinstance(made, Committed)
        seen: Seen = [await self._step(who, act) for who, act in script]
        found = await self.parties["ours"].zk.read(list(map(self._path, MANY)))
        czxids = sorted({node.czxid for node in found if node is not None})
        seen.append([node and (czxids.index(node.czxid), *self._node(node)) for node in found])
        seen.append([await self._do(self.parties["ours"], Children(name, False)) for name in ("", *FEW)])
        return seen

    async def _step(self, who: str, act: Act) -> object:
        outcome = await self._do(self.parties[who], act)
        fired = []
        for session in self.parties.values():
            await session.settle()
            fired.append(
                [(path, kind) for path, kind in session.fired if path.startswith(f"{self.root}/") or path == self.root]
            )
            session.fired.clear()
        return act, outcome, self._without_root(fired)

    def _without_root(self, fired: list[list[tuple[str, Fired]]]) -> object:
        return [[(path.removeprefix(self.root), kind) for path, kind in events] for events in fired]

    async def _do(self, session: SessionUnderTest, act: Act) -> object:
        match act:
            case Commit(transactions):
                placed = [[o._replace(path=self._path(o.path)) for o in operations] for operations in transactions]
                return [_outcome(outcome) for outcome in await session.zk.commit(placed)]
            case Read(names):
                return list(map(self._node, await session.zk.read(list(map(self._path, names)))))
            case Watch(names, absent_too):
                nodes = await session.zk.read_and_watch(list(map(self._path, names)), absent_too=absent_too)
                return list(map(self._node, nodes))
            case Children(name, watch):
                found = await session.zk.children(self._path(name) if name else self.root, watch=watch)
                return sorted(found) if found is not None else None
            case Acls(names):
                return await session.zk.have_open_acl(list(map(self._path, names)))
            case Mark():
                await session.mark(self.root)
            case Rewatch(existing, missing):
                await session.rewatch(list(map(self._path, existing)), list(map(self._path, missing)))
            case Leave():
                await session.leave()
                self._meet()
        return None

    def _meet(self) -> None:
        for name, session in self.parties.items():
            self.owners[session.zk.session_id] = name

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _node(self, node: Znode | None) -> Any:
        return node and (node.data, node.version, self.owners[node.ephemeral_owner])


def _outcome(outcome: object) -> object:
    if isinstance(outcome, Committed):
        return outcome.versions
    assert isinstance(outcome, Aborted)
    return ("aborted", outcome.failed, outcome.code)


class Real:
    """Two sessions of a real server, for all scripts."""

    def __init__(self, runner: asyncio.Runner, connect: str) -> None:
        self._runner = runner
        self._numbers = itertools.count(1)
        self._parties = {name: runner.run(Client(connect + "/contract", THREADED).open()) for name in WHO}

    def play(self, script: Script) -> Seen:
        """Run the script."""
        return self._runner.run(ScriptRun(self._parties, f"/s{next(self._numbers)}").run(script))

    def close(self) -> None:
        """End the sessions."""
        for session in self._parties.values():
            self._runner.run(session.session.close())


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    with asyncio.Runner() as runner:
        runner.run(server.start())
        with _closed_at_the_end(Real(runner, server.connect)) as sessions:
            yield sessions
        runner.run(server.close())


@contextmanager
def _closed_at_the_end(sessions: Real) -> Iterator[Real]:
    try:
        yield sessions
    finally:
        sessions.close()


def play_simulated(script: Script) -> Seen:
    loop = VirtualLoop(len(script))

    async def main() -> Seen:
        server = SimZooKeeper(loop)
        parties = {name: await Client("zk:2181/contract", SimKazoo(server, name)).open() for name in WHO}
        return await ScriptRun(parties, "/s1").run(script)

    return loop.run(main())


def play_fake(script: Script) -> Seen:
    tree = Tree()
    return asyncio.run(ScriptRun({name: Fake(tree, number) for number, name in enumerate(WHO, 1)}, "/s1").run(script))


_on_a_server: Callable[[Callable[..., None]], Callable[..., None]] = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@_on_a_server
@given(script=scripts)
@example(script=NUMBERS)
def test_the_simulated_zookeeper_does_what_the_real_one_does(real: Real, script: Script) -> None:
    assert play_simulated(script) == real.play(script)


@_on_a_server
@given(script=plain_scripts)
@example(script=NUMBERS)
def test_the_fake_zookeeper_does_what_the_real_one_does(real: Real, script: Script) -> None:
    assert play_fake(script) == real.play(script)
