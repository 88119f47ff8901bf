"""The steps of a random run: a function of the seed alone, so that a run can be repeated.

A step does not depend on the state of the cluster. Its request may be refused - a move to a broker that is down,
a topic that still exists - and that is a part of the run.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, NamedTuple

Replicas = tuple[int, ...]

BROKERS: Final = (1, 2, 3)
KEPT: Final[dict[str, dict[int, Replicas]]] = {
    "orders": {p: tuple(1 + (p + i) % 3 for i in range(3)) for p in range(6)},
    "pairs": {p: (1 + p % 3, 1 + (p + 1) % 3) for p in range(4)},
    "solo": {p: (1 + p % 3,) for p in range(2)},
}
"""Topics under load, which are never deleted; their replicas are moved all the same."""
_MOST_TOPICS: Final = 8
_MOST_PARTITIONS: Final = 12
_SETTLE_EVERY: Final = 40
_SOON: Final = 0.7
_WEIGHTS: Final = {
    "create": 10,
    "add partitions": 8,
    "reassign": 22,
    "cancel": 9,
    "elect": 8,
    "delete": 7,
    "broker": 9,
    "controller": 5,
    "ZooKeeper": 1,
}


class ChaosStep(NamedTuple):
    """One step. ``way`` is the way of the request, ``znode`` or ``api``, or the signal to a process."""

    number: int
    pause_s: float
    verb: str
    way: str = ""
    topic: str = ""
    partitions: tuple[tuple[int, Replicas], ...] = ()
    broker: int = 0

    def __str__(self) -> str:
        what = ", ".join(f"{p} to {list(replicas)}" if replicas else str(p) for p, replicas in self.partitions)
        words = [self.verb, f"broker {self.broker}" if self.broker else "", self.topic, what]
        way = f" ({self.way})" if self.way else ""
        return f"{' '.join(word for word in words if word)}{way}"


class Planner:
    """Draws steps; it remembers its requests as if each had been carried out at once."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._topics: dict[str, dict[int, Replicas]] = {name: dict(parts) for name, parts in KEPT.items()}
        self._deleted: list[str] = []
        self._created = 0
        self._moving = ""
        self._down = 0
        self._down_for = 0

    def steps(self) -> Iterator[ChaosStep]:
        """Yield steps without end; the caller stops when the time is over."""
        number = 0
        while True:
            number += 1
            if number % _SETTLE_EVERY == 0:
                self._down = 0
                yield ChaosStep(number, 0.0, "settle")
                continue
            pause_s = round(self._random.uniform(0.1, 2.0), 1)
            yield self._draw()._replace(number=number, pause_s=pause_s)

    def _draw(self) -> ChaosStep:
        if self._down:
            self._down_for -= 1
            if self._down_for <= 0:
                back, self._down = self._down, 0
                return ChaosStep(0, 0, "start", broker=back)
        (verb,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        acts: dict[str, Callable[[], ChaosStep]] = {
            "create": self._create,
            "add partitions": self._add,
            "reassign": self._reassign,
            "cancel": self._cancel,
            "elect": self._elect,
            "delete": self._delete,
            "broker": self._stop_broker,
            "controller": lambda: ChaosStep(0, 0, "end the controller", self._random.choice(["SIGKILL", "SIGTERM"])),
            "ZooKeeper": lambda: ChaosStep(0, 0, "restart ZooKeeper", "SIGKILL"),
        }
        return acts[verb]()

    def _some(self, factor: int) -> Replicas:
        return tuple(self._random.sample(BROKERS, factor))

    def _create(self) -> ChaosStep:
        if len(self._topics) >= len(KEPT) + _MOST_TOPICS:
            return self._delete()
        if self._deleted and self._random.random() < 0.2:
            name = self._deleted.pop(self._random.randrange(len(self._deleted)))
        else:
            self._created += 1
            name = f"temporary-{self._created}"
        factor = self._random.randint(1, 3)
        self._topics[name] = {p: self._some(factor) for p in range(self._random.randint(1, 6))}
        return ChaosStep(0, 0, "create", "znode", name, tuple(self._topics[name].items()))

    def _add(self) -> ChaosStep:
        name = self._random.choice(list(self._topics))
        there = self._topics[name]
        if len(there) >= _MOST_PARTITIONS:
            return self._reassign()
        added = {len(there) + n: self._some(len(there[0])) for n in range(self._random.randint(1, 3))}
        there |= added
        return ChaosStep(0, 0, "add partitions", "znode", name, tuple(added.items()))

    def _reassign(self) -> ChaosStep:
        name = self._random.choice(list(self._topics))
        there = self._topics[name]
        chosen = self._random.sample(sorted(there), self._random.randint(1, len(there)))
        factor = len(there[0]) if name in KEPT else self._random.randint(1, 3)
        targets = {p: self._some(factor) for p in chosen}
        there |= targets
        self._moving = name
        return ChaosStep(0, 0, "reassign", self._random.choice(["api", "api", "znode"]), name, tuple(targets.items()))

    def _cancel(self) -> ChaosStep:
        """Cancel mostly the last moves, which may be under way still."""
        is_there = self._moving in self._topics and self._random.random() < _SOON
        name = self._moving if is_there else self._random.choice(list(self._topics))
        return ChaosStep(0, 0, "cancel", "api", name, tuple((p, ()) for p in sorted(self._topics[name])))

    def _elect(self) -> ChaosStep:
        name = self._random.choice(list(self._topics))
        partitions = tuple((p, ()) for p in sorted(self._topics[name]))
        return ChaosStep(0, 0, "elect", self._random.choice(["api", "znode"]), name, partitions)

    def _delete(self) -> ChaosStep:
        names = [name for name in self._topics if name not in KEPT]
        if not names:
            return self._create()
        name = self._random.choice(names)
        del self._topics[name]
        self._deleted.append(name)
        return ChaosStep(0, 0, "delete", "znode", name)

    def _stop_broker(self) -> ChaosStep:
        if self._down:
            return self._reassign()
        self._down, self._down_for = self._random.choice(BROKERS), self._random.randint(2, 7)
        return ChaosStep(0, 0, "stop", self._random.choice(["SIGKILL", "SIGTERM"]), broker=self._down)
