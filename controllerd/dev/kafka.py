"""Real Apache Kafka brokers as child processes that can be killed, paused, shut down and restarted."""

import asyncio
import struct
import time
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from controllerd.dev.kafka_jars import class_path, release_in_use
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.processes import FAST_START_FLAGS, ChildProcess, DevError, find_java
from controllerd.dev.servers import ServerProcess

START_TIMEOUT_S = 90.0
_PROBE_TIMEOUT_S = 2.0
_CORRELATION_ID = struct.pack(">i", 7)
# ApiVersions version 0 without client id: a request that every broker answers without authentication.
_API_VERSIONS = struct.pack(">ihh", 10, 18, 0) + _CORRELATION_ID + struct.pack(">h", -1)
# The errors that end a broker while the session of its last run still holds /brokers/ids/<id>, and (by a
# NullPointerException in KafkaZkClient.CheckedEphemeral) when that session ends between two of its requests.
_REGISTRATION_ERRORS = ("KeeperErrorCode = NodeExists", "CheckedEphemeral.getAfterNodeExists")
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %m (%c)%n
"""
_TOOL_LOG4J = _LOG4J.replace("INFO, out", "WARN, out") + "log4j.appender.out.target=System.err\n"


class ToolResult(NamedTuple):
    """The exit status and the output of a command line tool of Kafka."""

    exit_status: int
    stdout: str
    stderr: str


class KafkaBroker(ServerProcess):
    """One stock broker in ZooKeeper mode with the shipped defaults, except for settings that shorten tests.

    Args:
        broker_id: `broker.id`.
        zookeeper_connect: with the chroot, which the broker creates if it is missing.
        directory: the folder of its properties, log and data.
        overrides: server properties on top of ours; None removes one.
        heap_mib: the largest heap of the JVM, in MiB.
        log4j: its `log4j.properties`; everything to standard output unless given.
        port: of its listener; a free one unless given.
        version: its release; by default the one of KAFKA_HOME, else 3.9.1.
    """

    def __init__(
        self,
        broker_id: int,
        zookeeper_connect: str,
        directory: Path,
        *,
        overrides: Mapping[str, str | None] | None = None,
        heap_mib: int = 512,
        log4j: str = _LOG4J,
        port: int = 0,
        version: str | None = None,
    ) -> None:
        super().__init__(f"broker {broker_id}", port)
        self.broker_id = broker_id
        self._version = version
        self._zookeeper_connect = zookeeper_connect
        self._directory = directory.absolute()
        self._overrides = dict(overrides or {})
        self._heap_mib = heap_mib
        self._log4j = log4j

    @property
    def version(self) -> str:
        """The release that the broker runs, or that its next start will run.

        Raises:
            DevError: KAFKA_HOME holds no Kafka.
        """
        return release_in_use(self._version)

    def install(self, *, version: str | None = None, overrides: Mapping[str, str | None] | None = None) -> None:
        """Set the release, or add server properties, for the next start; port and data stay, as in an upgrade.

        Raises:
            DevError: the broker runs.
        """
        if self.running:
            raise DevError(f"broker {self.broker_id} runs: stop it before you change its release or properties")
        self._version = version or self._version
        self._overrides.update(overrides or {})
        self._process = None

    def properties(self) -> dict[str, str]:
        """Return its `server.properties`; the release sets inter.broker.protocol.version, unless overridden."""
        ours = {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{self.port}",
            "zookeeper.connect": self._zookeeper_connect,
            "log.dirs": str(self._directory / "data"),
            "zookeeper.session.timeout.ms": "6000",
            "replica.lag.time.max.ms": "6000",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "controlled.shutdown.retry.backoff.ms": "500",
        }
        merged = {**ours, **self._overrides}
        return {key: value for key, value in merged.items() if value is not None}

    async def start(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the broker with the data of its last run, if any, and wait until it answers requests.

        A broker that was killed finds its own znode until the old session ends, and exits. It is started again then,
        as by a service manager. `timeout_s` begins when the jars exist: Maven may take far longer.

        Raises:
            DevError: Java or the jars are missing, or the broker did not answer within `timeout_s`.
        """
        await self._make_ready()
        deadline = time.monotonic() + timeout_s
        self.launch()
        with ExitStack() as undo:
            undo.callback(self.process.kill_now)
            while not await self._came_up(deadline):
                self.launch()
            undo.pop_all()

    async def _came_up(self, deadline: float) -> bool:
        """Whether it answers; False if its former session prevented the start and there is time for another one."""
        try:
            await self.wait_answering(timeout_s=deadline - time.monotonic())
        except DevError:
            if self.running or not any(map(self.process.wrote, _REGISTRATION_ERRORS)):
                raise
            return False
        return True

    async def _make_ready(self) -> None:
        if self._process is None:
            self._process = await asyncio.to_thread(self._prepare)

    async def wait_answering(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the broker answers requests.

        Raises:
            DevError: the process ended first, or `timeout_s` passed.
        """
        await self.process.wait_until(self.answering, timeout_s=timeout_s, what="answered")

    async def answering(self) -> bool:
        """Whether it answers ApiVersions now."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                return await _answers_api_versions(self.port)
        except (OSError, asyncio.IncompleteReadError):  # TimeoutError is an OSError
            return False

    async def terminate(self, *, timeout_s: float = 60.0) -> int:
        """Send SIGTERM, which begins a controlled shutdown; return the exit status (143 after an orderly one).

        Raises:
            DevError: it did not end within `timeout_s`, and was killed.
        """
        return await super().terminate(timeout_s=timeout_s)

    def _prepare(self) -> ChildProcess:
        lines = (f"{key}={value}\n" for key, value in self.properties().items())
        properties = _written(self._directory / "server.properties", "".join(lines))
        log4j = _written(self._directory / "log4j.properties", self._log4j)
        flags = (f"-Xmx{self._heap_mib}m", *FAST_START_FLAGS, f"-Dlog4j.configuration={log4j.as_uri()}")
        jars = class_path(version=self._version)
        command = [find_java(), *flags, "-cp", jars, "kafka.Kafka", str(properties)]
        return ChildProcess(f"broker {self.broker_id}", command, log_file=self._directory / "broker.log")


async def run_tool(
    main_class: str,
    arguments: Sequence[str],
    *,
    directory: Path,
    timeout_s: float = 60.0,
    stdin: str = "",
    version: str | None = None,
) -> ToolResult:
    """Run one of Kafka's command line tools by its main class, for example `org.apache.kafka.tools.TopicCommand`.

    `directory` receives its logging configuration; `stdin` is its standard input; `version` is the
    release of the tool. A failure of the tool is part of the result.

    Raises:
        DevError: Java or the jars are missing, or it did not end within `timeout_s` and was killed.
    """
    command = await asyncio.to_thread(_tool_command, main_class, directory, version)
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, process_group=0
    )
    try:
        async with asyncio.timeout(timeout_s):
            stdout, stderr = await process.communicate(stdin.encode())
    except TimeoutError as error:
        raise DevError(f"{main_class} did not end within {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return ToolResult(process.returncode or 0, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def _tool_command(main_class: str, directory: Path, version: str | None) -> list[str]:
    log4j = _written(directory.absolute() / "tools-log4j.properties", _TOOL_LOG4J)
    flags = ("-Xmx256m", *FAST_START_FLAGS, f"-Dlog4j.configuration={log4j.as_uri()}")
    return [find_java(), *flags, "-cp", class_path(version=version), main_class]


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


async def _answers_api_versions(port: int) -> bool:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(_API_VERSIONS)
        head = await reader.readexactly(8)
        return head[4:] == _CORRELATION_ID
    finally:
        writer.close()
