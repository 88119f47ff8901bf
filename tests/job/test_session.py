"""Where Spark runs: the configuration of the host, or that of the job."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replay.job.session import is_configured


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"])
def test_a_spark_environment_variable_is_respected(name: str) -> None:
    assert is_configured({name: "something"})


def test_a_spark_configuration_file_is_respected(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert not is_configured({"SPARK_HOME": str(tmp_path)})
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master spark://somewhere:7077\n")
    assert is_configured({"SPARK_HOME": str(tmp_path)})
    assert is_configured({"SPARK_CONF_DIR": str(tmp_path / "conf")})


def test_without_variables_or_files_nothing_is_configured() -> None:
    assert not is_configured({"PATH": "/bin"})


def test_a_local_session_has_no_ui_and_listens_on_loopback_only(spark: SparkSession) -> None:
    asked = ("spark.ui.enabled", "spark.driver.host", "spark.driver.bindAddress", "spark.sql.session.timeZone")
    assert [spark.conf.get(name) for name in asked] == ["false", "127.0.0.1", "127.0.0.1", "UTC"]
