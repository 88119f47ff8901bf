"""Finding the Java virtual machine that ZooKeeper and the Kafka brokers run in."""

import os
import shutil
from pathlib import Path

from controllerd.dev.errors import DevError

# The processes of a development cluster live for seconds or minutes: a cheap compiler and a cheap collector
# start in about half the time and leave the second core to the others.
FAST_START_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def find_java() -> str:
    """The path of the `java` to use: the one of JAVA_HOME when that is set, else the first on PATH.

    Raises:
        DevError: there is none, or JAVA_HOME points to a folder without one.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return _java_of(Path(home))
    found = shutil.which("java")
    if found is None:
        raise DevError("no Java found: install a Java 17 runtime and put java on PATH, or set JAVA_HOME")
    return found


def _java_of(home: Path) -> str:
    found = shutil.which("java", path=home / "bin")
    if found is None:
        raise DevError(f"JAVA_HOME is {home}, which holds no bin/java: point it to a Java 17 runtime or unset it")
    return found
