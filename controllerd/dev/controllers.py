"""Instances of controllerd as child processes that can be killed, stopped and started again."""

import asyncio
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controllerd.dev.ports import LOOPBACK, ReservedPort
from controllerd.dev.processes import ChildProcess
from wire.metadata import ClusterMetadata, fetch_metadata

_START_S = 90.0
_ASK_S = 5.0


class ControllerProcess:
    """One instance of controllerd with an identity, ports and a data directory of its own."""

    def __init__(
        self,
        node_id: int,
        zookeeper_connect: str,
        directory: Path,
        *,
        session_timeout_ms: int,
        when_broker_holds: str = "takeover",
        program: Sequence[str] = ("-m", "controllerd"),
        settings: Mapping[str, str] | None = None,
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        """``program`` is the program that the interpreter runs: the daemon, or a script around it.

        ``settings`` are further variables of its configuration, ``CONTROLLERD__SECTION__KEY``. ``ports`` are those of
        the Kafka protocol and of HTTP; 0 is any free port.
        """
        self.node_id = node_id
        self.directory = directory
        self.kafka_port, self._http_port = (ReservedPort(port) for port in ports)
        command = [sys.executable, "-P", *program, "run"]
        command += ["--zookeeper", zookeeper_connect, "--node-id", str(node_id), "--data-dir", str(directory / "data")]
        command += ["--listener", f"PLAINTEXT://{self.kafka_port.address}", "--http", self._http_port.address]
        command += ["--when-broker-holds", when_broker_holds]
        environment = {
            "CONTROLLERD__ZOOKEEPER__SESSION_TIMEOUT_MS": str(session_timeout_ms),
            "CONTROLLERD__ZOOKEEPER__CONNECTION_TIMEOUT_MS": "30000",
            **(settings or {}),
        }
        log_file = directory / "controllerd.log"
        self.process = ChildProcess(f"controllerd {node_id}", command, log_file=log_file, environment=environment)

    @property
    def http(self) -> str:
        """``host:port`` of the status endpoint."""
        return self._http_port.address

    async def start(self) -> None:
        """Start the instance and wait until it has a role. :raises DevError: it ended, or has no role in time."""
        self.process.start()
        await self.process.wait_until(self.is_settled, timeout_s=_START_S, what="settled")

    async def is_settled(self) -> bool:
        """Whether it is active, standby or observer."""
        return await self.role() in {"active", "standby", "observer"}

    async def is_active(self) -> bool:
        """Whether it is the active controller."""
        return await self.role() == "active"

    async def role(self) -> str:
        """Return its role; ``unreachable`` if it does not answer."""
        status = await self.status()
        return str(status["role"]) if status is not None else "unreachable"

    async def status(self) -> dict[str, Any] | None:
        """Return the answer of ``/v1/status`` (its meta and status together); None if there is none."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://{self.http}/v1/status", timeout=_ASK_S) as answer:
                body: dict[str, Any] = json.load(answer)
                return {**body["meta"], **body["status"]}
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    async def metadata(self) -> ClusterMetadata:
        """Return the metadata that this instance serves to clients."""
        return await fetch_metadata(LOOPBACK, self.kafka_port.port, timeout_s=_ASK_S)

    def audit_directory(self, cluster_id: str) -> Path:
        """Return the folder of its audit log of this cluster."""
        return self.directory / "data" / "audit" / cluster_id / str(self.node_id)

    async def close(self) -> None:
        """Kill it if it runs, and release its ports."""
        await self.process.kill()
        self.kafka_port.close()
        self._http_port.close()
