"""One session of Spark for all tests of the job: two cores, and no more partitions than small logs need."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from replay.job.engine import SparkEngine
from replay.job.session import open_session

SMALL = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=160m",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session."""
    session = open_session(SMALL)
    yield session
    session.stop()


@pytest.fixture
def engine(spark: SparkSession) -> SparkEngine:
    """An engine on the session."""
    return SparkEngine(spark)
