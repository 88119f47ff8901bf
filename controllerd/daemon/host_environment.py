"""The services of the machine that an instance uses. A simulation replaces them and runs in virtual time."""

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
    """Monotonic seconds that go on while the machine is suspended (``CLOCK_BOOTTIME``)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def new_topic_id() -> str:
    """Make a random topic id as Kafka does: base64url without padding, never with a leading dash (KIP-516)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """Time, network, ZooKeeper client, random numbers, garbage collection and stored settings.

    The defaults are those of the machine, but no settings are stored.
    """

    clock: Clock = field(default_factory=SystemClock)
    boottime: Callable[[], float] = _boottime
    """Monotonic seconds that go on while the machine is suspended (``CLOCK_BOOTTIME``)."""
    transport: Transport = PLAINTEXT
    kazoo: KazooDriver = THREADED
    new_topic_id: Callable[[], str] = new_topic_id
    draw: Callable[[int], int] = secrets.randbelow
    """Draws a random number from 0 to below its argument."""
    collector: Collector = field(default_factory=Garbage)
    slicer: Callable[[], Slicer] = Slicer
    stored_settings: SettingsMemory = field(default_factory=NoMemory)
    """The settings that brokers reported, kept over a restart."""
