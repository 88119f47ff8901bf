"""Find the inputs of the job: on this host, or in a file system that Hadoop supports (hdfs, s3a, gs, file)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from replay.facts.engine import Inputs, ReplayError
from replay.ingest.ingest_units import IngestUnit, find_units, options_of, units_of
from replay.ingest.inputs import EXPECTED, FORMATS, InputFile, format_of, without_twins
from replay.job.frames import root_cause
from replay.job.tasks import Read, bare, from_contents, names_of, on_this_host

_REMOTE: Final = re.compile(r"(?P<prefix>[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)(?P<path>/.*)")
_FILE: Final = "file:"
_TASKS: Final = 512
_NEXT: Final = (
    "check that the path exists and its host can be reached, and that Spark has Hadoop's connector for it on its"
    " class path (for s3a: --packages org.apache.hadoop:hadoop-aws:VERSION) and credentials in its configuration"
)


class Listed(NamedTuple):
    """Units that are read in the same way."""

    units: list[IngestUnit]
    prefix: str | None
    """The prefix of the paths of their files, as ``hdfs://namenode``; empty if Hadoop opens files of hosts; None if
    they are files of this host, on which the tasks run."""

    def name(self, unit: IngestUnit) -> str:
        """Return the unit's name, unique over all file systems."""
        return f"{self.prefix or ''}{unit.name}"


def is_remote(path: str) -> bool:
    """Return whether a path has a scheme: then only Hadoop opens it."""
    return _REMOTE.fullmatch(path) is not None


def find(spark: SparkSession, inputs: Inputs) -> list[Listed]:
    """Return everything that can be read, by its location.

    :raises ReplayError: a place has nothing that can be read; the text says what to do
    """
    here = tuple(path for path in inputs.paths if not is_remote(path))
    found = [Listed(find_units(inputs._replace(paths=here)), None)] if here or not inputs.paths else []
    places: dict[str, list[str]] = {}
    for path in inputs.paths:
        if match := _REMOTE.fullmatch(path):
            places.setdefault("" if match["prefix"].startswith(_FILE) else match["prefix"], []).append(path)
    for prefix, paths in places.items():
        units = _list(spark, prefix, paths, inputs)
        found.append(Listed([unit for unit in units if len(unit.files) == 1], prefix))
        found += [Listed([unit], prefix) for unit in units if len(unit.files) > 1]
    return found


def _list(spark: SparkSession, prefix: str, paths: Sequence[str], inputs: Inputs) -> list[IngestUnit]:
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.load(list(paths)).select("path", "length", F.unix_micros("modificationTime")).collect()
    except (PySparkException, Py4JError) as problem:
        raise ReplayError(f"cannot read {', '.join(paths)}: {root_cause(str(problem))}; {_NEXT}") from None
    status = {Path(bare(path, prefix)): (length, micros * 1000) for path, length, micros in files}
    kept = sorted(without_twins(sorted(status)))
    sources = list(_sources(kept, status, inputs))
    if not sources:
        raise ReplayError(f"{', '.join(paths)} has nothing to replay among {len(files)} files. Expected: {EXPECTED}")
    return units_of(sources, options_of(inputs))


def _sources(paths: Sequence[Path], status: dict[Path, tuple[int, int]], inputs: Inputs) -> Iterator[InputFile]:
    for path in paths:
        kind = next((one for one in FORMATS if one == inputs.log_format), None) or format_of(path.name)
        if kind is not None:
            yield InputFile(path, kind, *status[path])


def source_of(spark: SparkSession, listed: Listed) -> tuple[DataFrame, Read]:
    """Return the frame that Spark passes to the tasks, and the function that makes units of it.

    Files that only Hadoop opens are passed as a whole: a task holds one of them in memory, about three times, and each
    must be smaller than 2 GiB. Files of this host are read in pieces.
    """
    units = listed.units
    if listed.prefix is None:
        step = min(len(units), _TASKS)
        return spark.range(0, step, 1, step), on_this_host(units, step)
    paths = names_of(units)
    files = contents(spark, listed.prefix, paths)
    if len(paths) > len(units):
        files = files.coalesce(1)  # the files of one unit go to one task
    return files, from_contents(units, listed.prefix)


def contents(spark: SparkSession, prefix: str, paths: Sequence[str]) -> DataFrame:
    """Return ``path`` and ``content`` of files that Hadoop opens; ``prefix`` as in ``Listed``."""
    reader = spark.read.format("binaryFile")
    return reader.load([f"{prefix or _FILE}{path}" for path in paths]).select("path", "content")


def split(name: str) -> tuple[str, str]:
    """Split the name of a file in facts into ``prefix`` (see ``Listed``) and path."""
    match = _REMOTE.fullmatch(name)
    return (match["prefix"], match["path"]) if match is not None else ("", name)
