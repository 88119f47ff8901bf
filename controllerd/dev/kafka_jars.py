"""The class path of a release of Apache Kafka: of an unpacked release (KAFKA_HOME), or of jars fetched by Maven."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer

from controllerd.dev.processes import DevError, find_java
from controllerd.dev.releases import DEFAULT_RELEASE, check_release

_POM = Path(__file__).with_name("pom.xml")
_MAVEN_TIMEOUT_S = 900.0
_REPORT_EVERY_S = 3.0
_CORE_JAR = re.compile(r"kafka_2\.1\d-(\d+\.\d+\.\d+)\.jar")


def _silent(_: str) -> None:
    """Ignore the progress."""


def class_path(progress: Callable[[str], None] = _silent, *, version: str | None = None) -> str:
    """Return the class path that runs `kafka.Kafka` and Kafka's tools of a release.

    KAFKA_HOME is used if it holds that release, or if `version` is None. Without KAFKA_HOME, None
    means 3.9.1. Maven's answer is cached for each release, and used again while all its jars exist.
    The first run for a release may download about 70 MB; `progress` receives a line about the
    download, and a line about its progress every few seconds.

    Raises:
        DevError: there is no such release, or its jars are not available; the message says what to
            install.
    """
    if version is not None:
        check_release(version)
    home = os.environ.get("KAFKA_HOME")
    if home and version in {None, _release_in(Path(home))}:
        return str(Path(home) / "libs" / "*")
    return _by_maven(version or DEFAULT_RELEASE, progress)


def release_in_use(version: str | None = None) -> str:
    """Return the release of the class path that `class_path` returns for the same `version`.

    Raises:
        DevError: KAFKA_HOME holds no Kafka.
    """
    home = os.environ.get("KAFKA_HOME")
    return version or (_release_in(Path(home)) if home else DEFAULT_RELEASE)


def kafka_available() -> str | None:
    """Return None if brokers can run here, else the reason in one line.

    The class path is resolved, which may take minutes the first time.
    """
    try:
        find_java()
        class_path()
    except DevError as error:
        return str(error).splitlines()[0]
    return None


def _release_in(home: Path) -> str:
    found = [match[1] for jar in (home / "libs").glob("kafka_2.1*.jar") if (match := _CORE_JAR.fullmatch(jar.name))]
    if not found:
        raise DevError(f"KAFKA_HOME is {home}, which holds no libs/kafka_2.13-*.jar: point it to Apache Kafka 3.9.1")
    return found[0]


def _by_maven(version: str, progress: Callable[[str], None]) -> str:
    cached = _cache_file(version)
    known = _still_valid(cached)
    if known is not None:
        return known
    progress(f"resolving the published jars of Apache Kafka {version} by Maven (once, about 70 MB)")
    return _resolve(cached, version, progress)


def _how_to(version: str) -> str:
    return f"install Maven (mvn), or unpack Apache Kafka {version} for Scala 2.13 and set KAFKA_HOME to its folder"


def _cache_file(version: str) -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "controllerd"
    key = hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]
    return folder / f"kafka-class-path-{version}-{key}.txt"


def _still_valid(cached: Path) -> str | None:
    if not cached.is_file():
        return None
    known = cached.read_text(encoding="utf-8").strip()
    return known if known and all(Path(jar).is_file() for jar in known.split(":")) else None


def _resolve(cached: Path, version: str, progress: Callable[[str], None]) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise DevError(f"no jars of Apache Kafka {version} found and no Maven to fetch them: {_how_to(version)}")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
        answer = Path(folder) / "class-path.txt"
        _run_maven(maven, version, answer, progress)
        # The file is renamed when it is complete: another process never reads half a class path.
        answer.replace(cached)
    known = _still_valid(cached)
    if known is None:
        raise DevError(f"Maven named jars of Apache Kafka {version} that do not exist: {_how_to(version)}")
    return known


def _run_maven(maven: str, version: str, answer: Path, progress: Callable[[str], None]) -> None:
    # Maven reads a copy: it writes files beside the POM, and the package may be installed read-only.
    pom = answer.with_name("pom.xml")
    shutil.copyfile(_POM, pom)
    goal = ("dependency:build-classpath", f"-Dmdep.outputFile={answer}", "-Dmdep.pathSeparator=:")
    command = [maven, "-B", "-f", str(pom), f"-Dkafka.version={version}", *goal]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        limit = Timer(_MAVEN_TIMEOUT_S, process.kill)
        limit.start()
        try:
            output = _read_output(process, progress)
            process.wait()
        finally:
            limit.cancel()
            process.kill()  # if this block failed, the process may still run, and the context manager would wait for it
    if process.returncode < 0:
        raise DevError(f"Maven was killed, as it is after {_MAVEN_TIMEOUT_S:g} s: is its repository reachable?")
    if process.returncode != 0:
        raise DevError(f"Maven could not resolve Apache Kafka {version}: {_first_error(output)}")


def _read_output(process: subprocess.Popen[bytes], progress: Callable[[str], None]) -> str:
    """Return the whole output of Maven. While it arrives, report the progress every few seconds."""
    assert process.stdout is not None
    lines, fetched, reported = [], 0, time.monotonic()
    for line in process.stdout:
        lines.append(line.decode(errors="replace"))
        fetched += b"Downloaded from" in line
        if time.monotonic() - reported > _REPORT_EVERY_S:
            progress(f"Maven has fetched {fetched} files")
            reported = time.monotonic()
    return "".join(lines)


def _first_error(output: str) -> str:
    errors = [line for line in output.splitlines() if "ERROR" in line]
    return errors[0].strip() if errors else "it gave no reason"
