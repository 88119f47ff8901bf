"""The class path of Apache Kafka 3.9.1: from an unpacked release (KAFKA_HOME), or from its published jars by Maven."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer

from controllerd.dev.errors import DevError
from controllerd.dev.java import find_java

_POM = Path(__file__).with_name("pom.xml")
_MAVEN_TIMEOUT_S = 900.0
_TELL_EVERY_S = 3.0
_HOW_TO = "install Maven (mvn), or unpack Apache Kafka 3.9.1 for Scala 2.13 and set KAFKA_HOME to its folder"


def _silent(_: str) -> None:
    """The progress of callers that show none."""


def class_path(progress: Callable[[str], None] = _silent) -> str:
    """The class path that runs `kafka.Kafka` and Kafka's tools.

    The answer of Maven is kept in the cache folder and used again while all its jars exist. The first run may download
    about 70 MB; `progress` is told what is done, and every few seconds how far it is.

    Raises:
        DevError: the jars cannot be had here; the message says what is missing and how to get it.
    """
    home = os.environ.get("KAFKA_HOME")
    if home:
        return _of_release(Path(home))
    cached = _cache_file()
    known = _still_valid(cached)
    if known is not None:
        return known
    progress("resolving the published jars of Apache Kafka 3.9.1 by Maven (once, about 70 MB)")
    return _resolve(cached, progress)


def kafka_available() -> str | None:
    """None when brokers can run here, else the reason in one line.

    It resolves the class path, and so may take a while the first time.
    """
    try:
        find_java()
        class_path()
    except DevError as error:
        return str(error).splitlines()[0]
    return None


def _of_release(home: Path) -> str:
    libs = home / "libs"
    if not any(libs.glob("kafka_2.1*.jar")):
        raise DevError(f"KAFKA_HOME is {home}, which holds no libs/kafka_2.13-*.jar: point it to Apache Kafka 3.9.1")
    return str(libs / "*")


def _cache_file() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "controllerd"
    key = hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]
    return folder / f"kafka-class-path-{key}.txt"


def _still_valid(cached: Path) -> str | None:
    if not cached.is_file():
        return None
    known = cached.read_text(encoding="utf-8").strip()
    return known if known and all(Path(jar).is_file() for jar in known.split(":")) else None


def _resolve(cached: Path, progress: Callable[[str], None]) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise DevError(f"no jars of Apache Kafka found and no Maven to fetch them: {_HOW_TO}")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
        answer = Path(folder) / "class-path.txt"
        _run_maven(maven, answer, progress)
        # Renamed into place: another process never reads half a class path.
        answer.replace(cached)
    known = _still_valid(cached)
    if known is None:
        raise DevError(f"Maven named jars of Apache Kafka that do not exist: {_HOW_TO}")
    return known


def _run_maven(maven: str, answer: Path, progress: Callable[[str], None]) -> None:
    # Run on a copy: Maven writes beside the file that it reads, and the package may be installed read-only.
    pom = answer.with_name("pom.xml")
    shutil.copyfile(_POM, pom)
    goal = ("dependency:build-classpath", f"-Dmdep.outputFile={answer}", "-Dmdep.pathSeparator=:")
    command = [maven, "-B", "-f", str(pom), *goal]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        limit = Timer(_MAVEN_TIMEOUT_S, process.kill)
        limit.start()
        try:
            output = _heard(process, progress)
            process.wait()
        finally:
            limit.cancel()
            process.kill()  # it has ended, unless something failed here: then the block would wait for it
    if process.returncode < 0:
        raise DevError(f"Maven was killed, as it is after {_MAVEN_TIMEOUT_S:g} s: is its repository reachable?")
    if process.returncode != 0:
        raise DevError(f"Maven could not resolve Apache Kafka 3.9.1: {_first_error(output)}")


def _heard(process: subprocess.Popen[bytes], progress: Callable[[str], None]) -> str:
    """All that Maven prints. How far it is is told when it says something, every few seconds."""
    assert process.stdout is not None
    lines, fetched, told = [], 0, time.monotonic()
    for line in process.stdout:
        lines.append(line.decode(errors="replace"))
        fetched += b"Downloaded from" in line
        if time.monotonic() - told > _TELL_EVERY_S:
            progress(f"Maven has fetched {fetched} files")
            told = time.monotonic()
    return "".join(lines)


def _first_error(output: str) -> str:
    errors = [line for line in output.splitlines() if "ERROR" in line]
    return errors[0].strip() if errors else "it gave no reason"
