"""The class path comes from KAFKA_HOME or from Maven, is remembered while true, and its absence is explained."""

from pathlib import Path

import pytest

from controllerd.dev import kafka_jars
from controllerd.dev.kafka_jars import class_path, kafka_available, release_in_use
from controllerd.dev.processes import DevError


class FakeMaven:
    """A `mvn` on PATH that answers with given jars, or fails; it counts its calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        self._folder.mkdir()

    def answers_with_jars_of_the_asked_release(self, folder: Path) -> None:
        """Write a Maven that answers with one jar, which it creates, of the requested release."""
        named = f"{folder}/kafka_2.13-$version.jar"
        self._write(
            "for a; do case $a in -Dkafka.version=*) version=${a#*=};; -Dmdep.outputFile=*) out=${a#*=};; esac; done\n"
            f': > "{named}"; printf %s "{named}" > "$out"'
        )

    def answers(self, *jars: Path) -> None:
        named = ":".join(map(str, jars))
        self._write(f'for a; do case $a in -Dmdep.outputFile=*) printf %s "{named}" > "${{a#*=}}"; esac; done')

    def fetches(self, jar: Path, files: int) -> None:
        """Write a Maven that answers and prints each file that it fetched."""
        self.answers(jar)
        script = self._folder / "mvn"
        said = "printf '[INFO] Downloaded from central: a.jar\\n'\n" * files
        script.write_text(script.read_text(encoding="utf-8") + said, encoding="utf-8")

    def takes(self, seconds: float) -> None:
        """Make Maven answer after this time."""
        script = self._folder / "mvn"
        script.write_text(script.read_text(encoding="utf-8") + f"sleep {seconds}\n", encoding="utf-8")

    def fails(self, error: str) -> None:
        self._write(f"echo '{error}'; exit 1")

    @property
    def calls(self) -> int:
        return self._calls.read_text(encoding="ascii").count("x") if self._calls.exists() else 0

    def _write(self, body: str) -> None:
        script = self._folder / "mvn"
        script.write_text(f'#!/bin/sh\nprintf x >> "{self._calls}"\n{body}\n', encoding="utf-8")
        script.chmod(0o755)


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeMaven:
    """An empty cache, no KAFKA_HOME, and a Maven that the test configures."""
    fake = FakeMaven(tmp_path / "maven")
    monkeypatch.setenv("PATH", str(tmp_path / "maven"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    return fake


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "kafka_2.13-3.9.1.jar"
    path.touch()
    return path


def test_kafka_home_wins_over_maven(maven: FakeMaven, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.13-3.9.1.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "kafka"))
    assert class_path() == f"{libs}/*"


def test_a_kafka_home_without_kafka_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(DevError, match=f"KAFKA_HOME is {tmp_path}"):
        class_path()


def test_maven_is_asked_once(maven: FakeMaven, jar: Path) -> None:
    maven.answers(jar)
    assert [class_path(), class_path()] == [str(jar), str(jar)]
    assert maven.calls == 1


def test_progress_is_reported_before_maven_runs(maven: FakeMaven, jar: Path) -> None:
    maven.answers(jar)
    messages: list[str] = []
    class_path(messages.append)
    assert "Maven" in messages[0]


def test_progress_is_reported_during_a_download(maven: FakeMaven, jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_jars, "_REPORT_EVERY_S", 0.0)
    maven.fetches(jar, files=3)
    messages: list[str] = []
    class_path(messages.append)
    assert messages[1:] == [f"Maven has fetched {files} files" for files in (1, 2, 3)]


def test_maven_is_asked_again_when_a_jar_is_gone(maven: FakeMaven, jar: Path, tmp_path: Path) -> None:
    maven.answers(jar)
    class_path()
    jar.unlink()
    other = tmp_path / "other.jar"
    other.touch()
    maven.answers(other)
    assert class_path() == str(other)


def test_the_error_of_maven_is_passed_on(maven: FakeMaven) -> None:
    maven.fails("[ERROR] no such artifact")
    with pytest.raises(DevError, match="no such artifact"):
        class_path()


def test_jars_that_maven_names_and_that_do_not_exist_are_an_error(maven: FakeMaven, tmp_path: Path) -> None:
    maven.answers(tmp_path / "gone.jar")
    with pytest.raises(DevError, match="do not exist"):
        class_path()


def test_without_kafka_home_and_maven_the_error_has_advice(maven: FakeMaven) -> None:
    with pytest.raises(DevError, match=r"install Maven .* set KAFKA_HOME"):
        class_path()


def test_the_reason_why_kafka_is_missing_is_one_line(maven: FakeMaven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    reason = kafka_available()
    assert reason is not None
    assert "\n" not in reason


def test_each_release_has_a_class_path_of_its_own_and_each_is_resolved_once(maven: FakeMaven, tmp_path: Path) -> None:
    maven.answers_with_jars_of_the_asked_release(tmp_path)
    asked = [class_path(version=version) for version in ("2.8.2", "3.9.1", "2.8.2")]
    assert asked == [f"{tmp_path}/kafka_2.13-{version}.jar" for version in ("2.8.2", "3.9.1", "2.8.2")]
    assert maven.calls == 2


def test_the_default_release_is_3_9_1(maven: FakeMaven, tmp_path: Path) -> None:
    maven.answers_with_jars_of_the_asked_release(tmp_path)
    assert class_path() == class_path(version="3.9.1")
    assert release_in_use() == "3.9.1"


def test_the_release_that_is_downloaded_is_named(maven: FakeMaven, jar: Path) -> None:
    maven.answers(jar)
    messages: list[str] = []
    class_path(messages.append, version="2.8.2")
    assert "Apache Kafka 2.8.2" in messages[0]


@pytest.mark.parametrize("version", ["2.5.1", "4.0.0", "2.8.3", "2.8", "latest", ""])
def test_an_unknown_release_is_refused_with_the_known_ones(maven: FakeMaven, version: str) -> None:
    with pytest.raises(DevError, match=r"known releases are those up to 2\.6\.3, .* and 3\.9\.1"):
        class_path(version=version)
    assert maven.calls == 0


def test_a_release_that_maven_does_not_find_is_named(maven: FakeMaven) -> None:
    maven.fails("[ERROR] no such artifact")
    with pytest.raises(DevError, match=r"could not resolve Apache Kafka 2\.8\.1"):
        class_path(version="2.8.1")


def test_kafka_home_serves_the_release_that_it_holds_and_maven_the_others(
    maven: FakeMaven, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maven.answers_with_jars_of_the_asked_release(tmp_path)
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.13-2.8.2.jar").touch()
    (libs / "kafka_2.13-2.8.2-sources.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "kafka"))

    assert [release_in_use(), class_path(), class_path(version="2.8.2")] == ["2.8.2", f"{libs}/*", f"{libs}/*"]
    assert class_path(version="3.9.1") == f"{tmp_path}/kafka_2.13-3.9.1.jar"
