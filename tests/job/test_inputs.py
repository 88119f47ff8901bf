"""Places that Hadoop cannot open are refused with the cause and with advice."""

import pytest

from replay.facts.engine import Inputs, ReplayError
from replay.job.engine import SparkEngine
from replay.job.frames import root_cause


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("s3a://bucket/audit", "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        ("hdfs://nowhere.invalid:9000/audit", "UnknownHostException: nowhere.invalid"),
        ("strange://host/audit", 'UnsupportedFileSystemException: No FileSystem for scheme "strange"'),
        ("file:/no/such/folder", "[PATH_NOT_FOUND] Path does not exist: file:/no/such/folder. SQLSTATE: 42K03"),
    ],
)
def test_a_place_that_cannot_be_opened_is_refused_with_its_cause(
    engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory, path: str, cause: str
) -> None:
    with pytest.raises(ReplayError) as refusal:
        engine.ingest(Inputs((path,)), str(tmp_path_factory.mktemp("out")))
    assert str(refusal.value).startswith(f"cannot read {path}: {cause}; check that the path exists")


def test_the_error_of_a_task_comes_before_the_java_exception() -> None:
    trace = "An error occurred.\n: org.apache.spark.SparkException: lost\nOSError: [Errno 28] No space left on device\n"
    assert root_cause(trace) == "[Errno 28] No space left on device"


def test_the_innermost_cause_is_reported() -> None:
    trace = "An error occurred.\n: a.b.OuterException: c.InnerException: m\n\tat x\nCaused by: d.SadException: sad\n"
    assert root_cause(trace) == "SadException: sad"
