"""One instance of ``controllerd@.service`` inside a booted systemd."""

import json

from tests.systemd.machine import Machine

NODE = 2_000_000_000
WATCHED_S = 3
"""Shorter than in the unit, where it would cost each test of it a quarter of a minute."""


class Unit:
    """The names of the unit, its configuration, and its properties in systemd."""

    def __init__(self, machine: Machine, name: str, connect: str, kafka_port: int, http_port: int) -> None:
        self.machine = machine
        self.name = name
        self.connect = connect
        self.service = f"controllerd@{name}.service"
        self.socket = f"controllerd@{name}.socket"
        self.api = f"http://127.0.0.1:{http_port}"
        self._ports = kafka_port, http_port

    async def configure(self, *, log_level: str = "info", more: str = "") -> None:
        """Write the configuration, and a drop-in for a watchdog with less patience."""
        kafka, http = self._ports
        await self.machine.write(
            f"/etc/controllerd/{self.name}.toml",
            f'zookeeper = {{ connect = "{self.connect}", session_timeout_ms = 20000 }}\nnode.id = {NODE}\n'
            f'kafka.listeners = ["PLAINTEXT://127.0.0.1:{kafka}"]\nhttp.listen = "127.0.0.1:{http}"\n'
            f'log.level = "{log_level}"\n{more}\n',
        )
        await self.machine.write(
            f"/run/systemd/system/{self.service}.d/watched.conf",
            f"[Service]\nWatchdogSec={WATCHED_S}s\nTimeoutAbortSec=1s\nRestartSec=100ms\n",
        )
        await self.machine.must("systemctl", "daemon-reload")

    async def start(self) -> None:
        """Start it; systemd waits until it is ready."""
        outcome = await self.machine.run("systemctl", "start", self.service)
        assert outcome.code == 0, outcome.err + await self.log()

    async def log(self, *matches: str) -> str:
        """Its lines in the journal."""
        return await self.machine.journal(f"_SYSTEMD_UNIT={self.service}", *matches)

    async def took_to_stop(self) -> float:
        """Seconds between the two lines that systemd itself wrote about the stop."""
        await self.machine.must("journalctl", "--sync")
        journal = await self.machine.must("journalctl", "--output=json", f"UNIT={self.service}")
        entries = [json.loads(line) for line in journal.splitlines()]
        began, ended = (
            next(int(entry["__MONOTONIC_TIMESTAMP"]) for entry in entries if entry["MESSAGE"].startswith(word))
            for word in ("Stopping ", "Stopped ")
        )
        return (ended - began) / 1e6

    async def says(self, name: str) -> str:
        """A property of the service in systemd."""
        return await self.machine.property_of(self.service, name)

    async def becomes(self, name: str, value: str) -> None:
        """Wait until the property of the service has the value."""
        await self.machine.until(self.service, name, value)
