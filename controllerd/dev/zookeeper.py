"""The embedded ZooKeeper: the real server, run from the jars that pyspark contains, without an installation."""

import asyncio
import importlib.util
from contextlib import ExitStack
from pathlib import Path

from controllerd.dev.ports import LOOPBACK
from controllerd.dev.processes import FAST_START_FLAGS, ChildProcess, DevError, find_java
from controllerd.dev.servers import ServerProcess

# log4j-core is left out on purpose: its start-up takes longer than ZooKeeper's own. The API alone logs to stderr.
_JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "log4j-api", "log4j-slf4j2-impl", "metrics-core", "snappy-java")
_LOG_FLAGS = (
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
    "-Dorg.apache.logging.log4j.simplelog.level=INFO",
    "-Dorg.apache.logging.log4j.simplelog.showdatetime=true",
)
_START_TIMEOUT_S = 30.0
_PROBE_TIMEOUT_S = 1.0


class EmbeddedZooKeeper(ServerProcess):
    """One standalone ZooKeeper server on a port of 127.0.0.1, its data and log under `directory`.

    Args:
        directory: the folder of configuration, data and log; created if it is missing.
        tick_ms: the granularity of session expiry, in milliseconds. Session timeouts may be from 1 to 60 s.
        heap_mib: the largest heap of the JVM, in MiB.
        port: its client port; a free one unless given.
        durable: force each transaction to the disk, and run the JVM with flags for long runs: for measurements.
    """

    MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"

    def __init__(
        self, directory: Path, *, tick_ms: int = 500, heap_mib: int = 256, port: int = 0, durable: bool = False
    ) -> None:
        super().__init__("the embedded ZooKeeper", port)
        self._directory = directory
        self._tick_ms = tick_ms
        self._heap_mib = heap_mib
        self._durable = durable

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`, without chroot."""
        return self.address

    @property
    def data_directory(self) -> Path:
        """Its `dataDir`, which holds its transaction log."""
        return self._directory.absolute() / "data"

    async def start(self) -> None:
        """Start the server with the data of its last run, if any, and wait until it serves.

        Raises:
            DevError: Java or pyspark is missing, or the server did not start.
        """
        self.launch()
        with ExitStack() as undo:
            undo.callback(self.process.kill_now)
            await self.process.wait_until(self.serving, timeout_s=_START_TIMEOUT_S, what="answered")
            undo.pop_all()

    async def serving(self) -> bool:
        """Whether the server answers `srvr` as a running server."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                return b"Zookeeper version" in await four_letter_word(self.port, b"srvr")
        except OSError:  # TimeoutError is one
            return False

    def _prepare(self) -> ChildProcess:
        java, class_path = find_java(), ":".join(map(str, zookeeper_jars()))
        self._directory.mkdir(parents=True, exist_ok=True)
        configuration = self._directory.absolute() / "zoo.cfg"
        configuration.write_text(self._configuration(), encoding="utf-8")
        flags = (
            f"-Xmx{self._heap_mib}m",
            *((f"-Xms{self._heap_mib}m",) if self._durable else FAST_START_FLAGS),
            *_LOG_FLAGS,
        )
        command = [java, *flags, "-cp", class_path, self.MAIN_CLASS, str(configuration)]
        return ChildProcess("ZooKeeper", command, log_file=self._directory / "zookeeper.log")

    def _configuration(self) -> str:
        settings = {
            "dataDir": self.data_directory,
            "clientPort": self.port,
            "clientPortAddress": LOOPBACK,
            "tickTime": self._tick_ms,
            "minSessionTimeout": 1_000,
            "maxSessionTimeout": 60_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            # The kernel keeps the data of a killed process; only a power failure would lose it, which no test causes.
            "forceSync": "yes" if self._durable else "no",
            "preAllocSize": 65_536 if self._durable else 1_024,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def zookeeper_jars() -> list[Path]:
    """Return the jars of pyspark that the ZooKeeper server needs; pyspark itself is not imported.

    Raises:
        DevError: pyspark is not installed, or holds no such jar.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise DevError("no ZooKeeper found: pyspark contains it: run `make setup`, which installs pyspark")
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    return [_jar(folder, name) for name in _JARS]


def _jar(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
    if not found:
        raise DevError(f"{folder} holds no {name} jar: reinstall pyspark 4.3")
    return found[-1]


async def four_letter_word(port: int, word: bytes) -> bytes:
    """Return a local server's answer to a command such as `srvr`. :raises OSError: it does not answer."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(word)
        return await reader.read()
    finally:
        writer.close()
