"""A cluster of Spark on this host: a master and workers as processes of their own, on loopback."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pyspark

from controllerd.dev.ports import LOOPBACK, ReservedPort

HOME: Final = Path(pyspark.__file__).parent
STARTS_S: Final = 120.0
DEPLOY: Final = "org.apache.spark.deploy"
SMALL: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def environment() -> Mapping[str, str]:
    """The environment of Spark's programs: loopback only, and the Python that runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return kept | python | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}


@dataclass(frozen=True)
class SparkCluster:
    """A running Spark cluster."""

    folder: Path
    master: str
    page: int
    """The port of the master's web page."""

    def submit(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run ``spark-submit`` to its end, in a folder without files of this tree."""
        options = [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
        sizes = ["--driver-memory", "512m", "--executor-memory", "512m", "--executor-cores", "1"]
        command = [str(HOME / "bin" / "spark-submit"), "--master", self.master, *sizes, *options, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment(), check=False, capture_output=True, text=True, timeout=900
        )

    def executors(self) -> list[Path]:
        """The folders of all executors that there ever were, below those of their workers."""
        return sorted(path.parent for path in self.folder.glob("worker-*/app-*/*/stderr"))

    def until_workers(self, count: int) -> None:
        """Wait until so many workers have registered."""
        end = time.monotonic() + STARTS_S
        while self._state().get("aliveworkers", 0) < count:
            assert time.monotonic() < end, (self.folder / "master.log").read_text()
            time.sleep(0.2)

    def _state(self) -> dict[str, Any]:
        connection = HTTPConnection(LOOPBACK, self.page, timeout=5)
        try:
            connection.request("GET", "/json/")
            answer = connection.getresponse()
            return dict(json.loads(answer.read())) if answer.status == HTTPStatus.OK else {}
        except OSError:  # it is not up yet; nor is it with another status
            return {}
        finally:
            connection.close()


@contextmanager
def running_cluster(folder: Path, workers: int) -> Iterator[SparkCluster]:
    """A master and workers of one core and 512 MiB each; all are ended."""
    with ExitStack() as stack:
        port, page = (stack.enter_context(ReservedPort()).port for _ in range(2))
        cluster = SparkCluster(folder, f"spark://{LOOPBACK}:{port}", page)
        master = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(page)]
        stack.enter_context(_daemon(folder / "master.log", f"{DEPLOY}.master.Master", master))
        for number in range(workers):
            home = folder / f"worker-{number}"
            place = ["--host", LOOPBACK, "--webui-port", "0", "--work-dir", str(home)]
            worker = [*place, "--cores", "1", "--memory", "512m", cluster.master]
            stack.enter_context(_daemon(folder / f"worker-{number}.log", f"{DEPLOY}.worker.Worker", worker))
        cluster.until_workers(workers)
        yield cluster


@contextmanager
def _daemon(log: Path, name: str, arguments: Sequence[str]) -> Iterator[None]:
    with log.open("wb") as stream:
        command = [str(HOME / "bin" / "spark-class"), name, *arguments]
        process = subprocess.Popen(command, env=environment(), stdout=stream, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(STARTS_S)
