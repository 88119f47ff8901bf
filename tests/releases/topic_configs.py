"""Generate the table of topic configs that each Kafka release accepts, from its own ``LogConfig``.

``python -m tests.releases.topic_configs`` writes two files: the table that the controller validates with
(``controllerd/core/topic_config_table.py``), and ``topic_configs.json`` beside this script, the releases' own answers
to several hundred questions, which ``tests/core/test_topic_config_table.py`` compares with the controller's answers.
It needs Java and the jars of every release, some hundred MB that Maven downloads once.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from controllerd.dev.kafka_jars import class_path
from controllerd.dev.processes import find_java
from controllerd.dev.releases import LAST_RELEASES

HERE: Final = Path(__file__).parent
ANSWERS: Final = HERE / "topic_configs.json"
TABLE: Final = HERE.parents[1] / "controllerd/core/topic_config_table.py"
_PROGRAM: Final = HERE / "TopicConfigs.java"
_FORMAT: Final = "message.format.version"

Config = Mapping[str, Any]
"""One config of a release's ConfigDef, as the Java program prints it."""


class Question(NamedTuple):
    """The configs of a new topic, and whether the brokers have tiered storage."""

    configs: Mapping[str, str]
    tiered_storage: bool = False


# -- the releases ------------------------------------------------------------------------------------------------------


def _ask(version: str, questions: Sequence[Question]) -> tuple[list[Config], list[str | None]]:
    """Return the configs that this release defines, and its answer to each question: a refusal's text, or None."""
    command = [find_java(), "-cp", class_path(version=version), str(_PROGRAM)]
    lines = "".join(map(_line, questions))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if "name" in row], [row["answer"] for row in rows if "answer" in row]


def _line(question: Question) -> str:
    pairs = [text for pair in question.configs.items() for text in pair]
    return "\t".join([str(int(question.tiered_storage)), *pairs]) + "\n"


def _minor(version: str) -> str:
    return version.rpartition(".")[0]


# -- the table ---------------------------------------------------------------------------------------------------------

_FIRST_GENERATED: Final = "TOPIC_CONFIG_ROWS: Final = ("
"""The first generated line of the table's module. The text before it is written by hand, and is kept."""


def _table(head: str, defined: Mapping[str, list[Config]], accepted: Mapping[str, frozenset[str]]) -> str:
    rows = "".join(f"    {_row(config, *bounds)},\n" for config, *bounds in _rows(defined))
    versions = _all_versions(defined)
    latest = "".join(
        f"    {_pair(version)}: {_latest(configs, accepted[version])},\n" for version, configs in defined.items()
    )
    return (
        f"{head}{_FIRST_GENERATED}\n{rows})\n"
        '"""In the order in which Kafka checks their values."""\n\n'
        f"FORMAT_VERSIONS: Final = {tuple(versions)!r}\n"
        '"""Every version that 3.9 knows, the oldest first; an older release knows the first of them."""\n\n'
        f"LATEST_FORMAT_VERSIONS: Final = {{\n{latest}}}\n"
    )


def _rows(defined: Mapping[str, list[Config]]) -> Iterator[tuple[Config, str, str]]:
    """Yield each config with the first and the last release of this definition, in the order of the ConfigDefs."""
    for name in _in_order(defined):
        runs: list[list[Any]] = []
        for version, configs in defined.items():
            config = next((_comparable(config) for config in configs if config["name"] == name), None)
            if runs and runs[-1][0] == config:
                runs[-1][2] = version
            else:
                runs.append([config, version, version])
        yield from ((config, since, until) for config, since, until in runs if config is not None)


def _in_order(defined: Mapping[str, list[Config]]) -> list[str]:
    """Return the names of the last release. Every release has them in this order, and no other names."""
    order = [config["name"] for config in list(defined.values())[-1]]
    for version, configs in defined.items():
        names = [config["name"] for config in configs]
        assert names == [name for name in order if name in names], f"{version} has another order or another name"
    return order


def _comparable(config: Config) -> Config:
    return {key: value for key, value in config.items() if key != "versions" and value is not None}


def _row(config: Config, since: str, until: str) -> str:
    fields = [repr(config["name"]), repr(config["type"]), _pair(since), _pair(until), repr(config["default"])]
    names = {"setting": "setting", "min": "minimum", "max": "maximum", "validator": "validator"}
    fields += [f"{ours}={config[theirs]!r}" for theirs, ours in names.items() if theirs in config]
    fields += [f"{key}={tuple(config[key])!r}" for key in ("values", "elements") if key in config]
    fields += ["is_internal=True"] if "internal" in config else []
    return f"TopicConfigRow({', '.join(fields)})"


def _pair(version: str) -> str:
    return f"({_minor(version).replace('.', ', ')})"


def _versions(configs: Iterable[Config]) -> list[str]:
    return next(list(config["versions"]) for config in configs if config["name"] == _FORMAT)


def _all_versions(defined: Mapping[str, list[Config]]) -> list[str]:
    known = _versions(list(defined.values())[-1])
    for version, configs in defined.items():
        older = _versions(configs)
        assert older == known[: len(older)], f"{version} knows other format versions"
    return known


def _latest(configs: list[Config], accepted: frozenset[str]) -> str:
    names = [_release_of(version) for version in _versions(configs)]
    latest = max((name for name in names if name in accepted), key=names.index)
    assert accepted.issuperset(names[: names.index(latest)])
    return f"FormatVersions({_versions(configs)[-1]!r}, {latest!r})"


def _release_of(version: str) -> str:
    return version.partition("-IV")[0]


# -- the questions -----------------------------------------------------------------------------------------------------

_INTEGERS: Final = ("", "x", "1.5", " 7 ", "+5", "0x10", "1_000", "-1", "0", "1")
_TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "INT": (*_INTEGERS, "2147483647", "2147483648", "-2147483649"),
    "LONG": (*_INTEGERS, "9223372036854775807", "9223372036854775808"),
    "DOUBLE": ("", "x", "0.5", ".5d", "1e-5", "1.5", "-0.1", "NaN", "Infinity"),
    "BOOLEAN": ("true", " FALSE ", "yes", "1", ""),
    "LIST": ("", "x", "compact,delete", " compact , delete ", "compact,,delete", "*", "0:1, 2:3", "0:1,*", "0:1,"),
    "STRING": ("", "x", "none", "GZIP", " zstd ", "createtime"),
}
_FORMATS: Final = (
    "2.8.1",
    "0.10.2.1",
    "2.6.3.4",
    "2.8.",
    "2.6.",
    "3.9.",
    "3.9..1",
    "0.9",
    "0.10",
    "4.1",
    "4.0-IV2",
    "3",
)
_RELATIONS: Final = (
    Question({"no.such": "1"}),
    Question({"no.such": "1", "segment.bytes": "x"}),
    Question({"segment.bytes": "x", "preallocate": "x"}),
    Question({"segment.bytes": "14", "segment.index.bytes": "1048576"}),
    Question({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}),
    Question({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}),
    Question({"min.compaction.lag.ms": "9223372036854775807"}),
    *(
        Question(configs, tiered)
        for tiered in (False, True)
        for enabled in ({}, {"remote.storage.enable": "true"})
        for kind in ("ms", "bytes")
        for configs in (
            enabled,
            {**enabled, "cleanup.policy": "compact,delete"},
            {**enabled, "remote.log.copy.disable": "true"},
            {**enabled, "remote.log.delete.on.disable": "true", "remote.log.copy.disable": "false"},
            *(
                {**enabled, f"local.retention.{kind}": local, **whole}
                for local in ("-2", "-1", "0", "10", "11")
                for whole in ({}, {f"retention.{kind}": "10"}, {f"retention.{kind}": "-1"})
            ),
            {**enabled, "local.retention.ms": "11", "local.retention.bytes": "11", "retention.ms": "10"},
        )
    ),
)


STRICTER: Final = "compare this value with their own log.retention settings"
"""Part of the refusals in which the controller is stricter than a broker with Kafka's defaults."""


def depends_on_broker_settings(configs: Mapping[str, str], release: tuple[int, int]) -> bool:
    """Return whether a broker of this release may refuse the configs because of its own settings.

    Brokers from 3.0 to 3.5 compare a local retention with their own log.retention settings where the
    topic has no retention. The controller refuses such configs (``STRICTER``), even if the tested broker
    accepts them.
    """
    has_local = any(
        configs.get(f"local.retention.{kind}", "-2") != "-2" and f"retention.{kind}" not in configs
        for kind in ("ms", "bytes")
    )
    return has_local and (3, 0) <= release < (3, 6)


def _questions(configs: Iterable[Config]) -> list[Question]:
    """Return the questions to every release, from the configs that at least one release defines."""
    texts: dict[str, dict[str, None]] = {}
    for config in configs:
        texts.setdefault(config["name"], {}).update(dict.fromkeys(_texts(config)))
    single = [Question({name: text}) for name, values in texts.items() for text in values]
    return list({repr(question): question for question in (*single, *_RELATIONS)}.values())


def _texts(config: Config) -> Iterator[str]:
    yield from _TEXTS[config["type"]]
    for bound in (config.get("min"), config.get("max")):
        if bound is not None:
            yield from (str(bound - 1), str(bound), str(bound + 1))
    yield from config.get("values", ())
    yield from config.get("elements", ())
    if config["name"].endswith(".level"):
        yield from map(str, (-131_073, -131_072, -2, 9, 10, 17, 18, 22, 23))
    for version in config.get("versions", ()):
        yield from (version, _release_of(version))
    yield from _FORMATS if config["name"] == _FORMAT else ()


# -- the answers -------------------------------------------------------------------------------------------------------


def _answers(questions: Sequence[Question], answers: Mapping[str, Sequence[str | None]]) -> str:
    """Return the text of the file: one line per question, with an entry for each release whose answer changes."""
    rows = []
    for number, question in enumerate(questions):
        changes: dict[str, str | None] = {}
        for version, given in answers.items():
            if not changes or list(changes.values())[-1] != given[number]:
                changes[_minor(version)] = given[number]
        row = {"tiered_storage": question.tiered_storage, "configs": question.configs, "answers": changes}
        rows.append(json.dumps(row))
    return "[\n" + ",\n".join(rows) + "\n]\n"


def _accepted_formats(questions: Sequence[Question], answers: Sequence[str | None]) -> frozenset[str]:
    asked = (question.configs.get(_FORMAT) for question in questions)
    return frozenset(text for text, refusal in zip(asked, answers, strict=True) if text is not None and refusal is None)


def main() -> None:
    """Ask every release, and write both files."""
    defined = {version: _ask(version, [])[0] for version in LAST_RELEASES}
    questions = _questions(config for configs in defined.values() for config in configs)
    answers = {version: _ask(version, questions)[1] for version in LAST_RELEASES}
    accepted = {version: _accepted_formats(questions, given) for version, given in answers.items()}
    head, _, _ = TABLE.read_text(encoding="utf-8").partition(_FIRST_GENERATED)
    TABLE.write_text(_table(head, defined, accepted), encoding="utf-8")
    ANSWERS.write_text(_answers(questions, answers), encoding="utf-8")
    subprocess.run(["ruff", "format", str(TABLE)], check=True)


if __name__ == "__main__":
    main()
