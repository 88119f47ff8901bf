"""Whose word it is where Spark runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replay.job.session import is_configured


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"])
def test_what_the_surroundings_ask_for_is_left_alone(name: str) -> None:
    assert is_configured({name: "something"})


def test_a_configuration_of_spark_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert not is_configured({"SPARK_HOME": str(tmp_path)})
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master spark://somewhere:7077\n")
    assert is_configured({"SPARK_HOME": str(tmp_path)})
    assert is_configured({"SPARK_CONF_DIR": str(tmp_path / "conf")})


def test_nothing_is_configured_where_nobody_said_anything() -> None:
    assert not is_configured({"PATH": "/bin"})


def test_a_session_of_our_own_is_quiet_and_listens_on_loopback_only(spark: SparkSession) -> None:
    asked = ("spark.ui.enabled", "spark.driver.host", "spark.driver.bindAddress", "spark.sql.session.timeZone")
    assert [spark.conf.get(name) for name in asked] == ["false", "127.0.0.1", "127.0.0.1", "UTC"]
