"""The parts that an instance takes from its machine: a simulation replaces them, and runs in virtual time."""

import base64
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from controllerd.clock import SystemClock
from controllerd.daemon.settings_memory import NoMemory, SettingsMemory
from controllerd.garbage import Collector, Garbage
from controllerd.ports.clock import Clock
from controllerd.slicer import Slicer
from controllerd.zk.driver import THREADED, KazooDriver
from wire.transport import PLAINTEXT, Transport


def _boottime() -> float:
    """Seconds that go on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def new_topic_id() -> str:
    """A random id as Kafka makes them: base64url without padding, never beginning with a dash (KIP-516)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """Time, network, ZooKeeper's client and chance. The defaults are those of the machine."""

    clock: Clock = field(default_factory=SystemClock)
    boottime: Callable[[], float] = _boottime
    """Seconds that go on while the process or the machine is suspended."""
    transport: Transport = PLAINTEXT
    kazoo: KazooDriver = THREADED
    new_topic_id: Callable[[], str] = new_topic_id
    draw: Callable[[int], int] = secrets.randbelow
    """A random number from 0 to below its argument."""
    collector: Collector = field(default_factory=Garbage)
    slicer: Callable[[], Slicer] = Slicer
    memory: SettingsMemory = field(default_factory=NoMemory)
    """The known settings of brokers, kept beyond the end of the process."""
