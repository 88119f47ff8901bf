"""The part of ``docs/compatibility.md`` on topic configs: which releases accept which values."""

from collections.abc import Iterator
from typing import Final

from controllerd.core.topic_config_table import LATEST_FORMAT_VERSIONS, TOPIC_CONFIG_ROWS, TopicConfigRow

HEAD: Final = """\
## Topic configurations by the brokers' release

A new topic is judged by the release of every live broker, the oldest first, because each broker reads the topics'
configurations at every start and ends at one that it does not understand. A broker that is not live and has replicas is
judged by, too: it may be restarting. A refusal names a broker that does not understand a configuration
(`message.format.version=3.9-IV0 is not understood by broker 2 (Kafka 2.8): ...`). A configuration that is wrong on 3.9
as well is refused in the words of the oldest release. A broker whose release is not known, yet or since the takeover,
counts as one of the cluster's protocol version. The tables of the releases from 2.6 to 3.9 are generated
from their own `LogConfig` (`python -m tests.releases.topic_configs`) and compared with real brokers of each release
(`tests/releases/test_topic_configs.py`). These configurations are not the same in all of them:

| Configuration | Releases | Accepted |
|---|---|---|
"""
TAIL: Final = """
`local.retention.ms` and `local.retention.bytes` may not exceed `retention.ms` and `retention.bytes`: from 3.0 to 3.5
for every topic, where -1 (no limit) counts as less than any number; from 3.6 on only for topics with
`remote.storage.enable=true`. While a broker of 3.0 to 3.5 counts, a topic that names one of them, other than -2, has to
name the retention, too: these brokers would compare it with their own `log.retention.*`. Up to 3.5
`remote.storage.enable` is accepted without tiered storage and has no effect.

A change of the configuration of a topic (`kafka-configs --alter`) is judged by the broker that receives it, as before:
during a rolling upgrade send it to a broker of the oldest release.
"""
_FORMAT: Final = "message.format.version"
_ALL: Final = ((2, 6), (3, 9))


def section() -> str:
    """The whole section."""
    rows = (*_differing(), *_formats())
    return HEAD + "".join(f"| `{name}` | {releases} | {accepted} |\n" for name, releases, accepted in rows) + TAIL


def _differing() -> Iterator[tuple[str, str, str]]:
    """Name, releases and accepted values of each config that some release does not know or restricts otherwise."""
    spans: dict[tuple[str, str], list[TopicConfigRow]] = {}
    for row in TOPIC_CONFIG_ROWS:
        spans.setdefault((row.name, _accepted(row)), []).append(row)
    for (name, accepted), rows in spans.items():
        since, until = rows[0].since, rows[-1].until
        if name != _FORMAT and (since, until) != _ALL:
            yield name, _span(since, until), accepted


def _formats() -> Iterator[tuple[str, str, str]]:
    for release, latest in LATEST_FORMAT_VERSIONS.items():
        yield _FORMAT, _name(release), f"up to `{latest.step}`, without a step up to `{latest.name}`"


def _accepted(row: TopicConfigRow) -> str:
    if row.validator is not None:
        return row.validator
    if row.minimum is None:
        return row.type
    return f"{row.type} from {row.minimum}" + (f" to {row.maximum}" if row.maximum is not None else "")


def _span(since: tuple[int, int], until: tuple[int, int]) -> str:
    return _name(since) if since == until else f"{_name(since)} to {_name(until)}"


def _name(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
