"""Writes ``docs/compatibility.md`` from the cells: ``python -m tests.tools.page``."""

import itertools
import sys
from pathlib import Path
from typing import Final

from tests.real.comparison.asking import Justified, justified
from tests.real.comparison.plan import EVERYTHING
from tests.releases import gaps
from tests.releases import seen as releases
from tests.tools import configs, data, libraries, others, partitions, topics
from tests.tools import releases as topic_configs
from tests.tools.cells import CELLS, WAYS, Cell, Client
from tests.tools.seen import Seen, is_seen, read

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
SOURCES: Final = (topics, partitions, configs, others, data, libraries)
"""The modules with cells, in the order of the page; their import adds the cells."""
NOT_SEEN: Final = "not seen yet"
HEAD: Final = f"""\
# Tools and clients

Kafka's own command-line tools of 3.9.1, each by its main class, and admin clients in C and Python, unchanged, on a
cluster of three stock brokers of 3.9.1 that controllerd leads (mode `visible`). Every row is a test that is run twice
(`tests/real/test_tools.py`): with `--bootstrap-server` naming a broker, and naming controllerd. It checks the output,
the exit status, that a tool logs no warning without a cause, and the state of ZooKeeper and the brokers afterwards.

*works* means: the client does what Kafka documents. *refused in Kafka's words* means: with Kafka's error and message,
so that scripts that search for them still work. Another test compares the answers with the built-in controller's: in
`tests/real/test_comparison.py` both controllers are sent more than {len(EVERYTHING) // 50 * 50} requests, and their
answers are compared one by one; intended differences are in `tests/real/comparison/differences.toml`, and below.

This page is generated from the table of the tests and from the results of their runs (`tests/tools/seen.json`):
`CONTROLLERD_TOOLS_SEEN=1 make test-real`, then `python -m tests.tools.page`. A cell that was changed since says
*{NOT_SEEN}*.
"""
DIFFERENCES: Final = """\
## Answers that differ from the built-in controller's on purpose

| Request | In | Why |
|---|---|---|
"""
RELEASES: Final = f"""\
## Releases of the brokers

Three stock brokers of each release under load, at 2.0, the lowest `inter.broker.protocol.version` that controllerd
serves, and at the release's own, led by a controllerd without any setting for these versions. Every cell is a test
(`tests/releases/acts.py`), after which no acknowledged record is lost, doubled or out of order, and the audit log folds
to ZooKeeper. *Take over* is from the release's own controller, and *give back* to it. *Bounce* means that a broker
restarts while the process of controllerd is paused: controllerd recognises the new process by its broker epoch, and
sends it all its replicas and the whole metadata. *Controlled shutdown* means that SIGTERM is answered and the leaders
have moved before the broker stops. The table also names the way in which leaders reported changes of ISRs, by the audit
log.

controllerd serves the protocol versions from 2.0 to 3.9; `kafka.inter_broker_protocol_version` takes no other one. A
lower version of a broker is no reason to refuse the role: controllerd then uses 2.0, or the higher version that it
knows already, and raises the alarm `settings of brokers differ` (`inter.broker.protocol.version: 2.0 is used as
the lowest that is served, but broker 1 says 1.1`). Raise the version of this broker. No release is tested below 2.0.

The table is generated from the results of the tests (`tests/releases/seen.json`): `CONTROLLERD_RELEASES_SEEN=1 make
test-releases`, then `python -m tests.tools.page`. *{NOT_SEEN}* is a cell whose test has not succeeded as it is now.

"""
GAPS: Final = """
The longest time that one partition went without an acknowledgement (three brokers, one producer with `acks=all` on six
partitions) while each broker is shut down and started again, one after the other, measured once by
`tests/releases/test_rolling_restart.py`. Leaders of 2.7, 2.8 and 3.0 do not move the high watermark when a change of
the ISR is answered (KAFKA-13091), under any controller: a producer whose record arrives at that moment waits for
its `request.timeout.ms`, 5 s here.

"""
TAIL: Final = """\
## Not covered

- kafka-dump-log, kafka-storage and similar tools work on files without a controller. kafka-delegation-tokens needs
  authentication, which is not supported yet.
- `create.topic.policy.class.name` and `alter.config.policy.class.name` name Java classes, which controllerd cannot run.
  Where a broker, or the `server.properties` of controllerd, names one, controllerd does not lead.
- A broker that creates a topic by itself (a producer's first record, `__consumer_offsets`) counts controllerd as a live
  broker. If the replication factor is exactly one more than the number of live brokers, the broker creates the topic,
  with controllerd as one of its replicas, and clients get LEADER_NOT_AVAILABLE; the built-in controller's cluster
  answers INVALID_REPLICATION_FACTOR. The topic waits until a live broker exists that has no replica of it yet;
  controllerd then gives this broker the replica. If no broker can be started, delete the topic and create it with fewer
  replicas. `controllerctl why` and an alarm name the reason. CreateTopics through controllerd counts brokers only
  ([ADR 0033](adr/0033-a-topic-that-counts-us-waits.md)).
- Clients of any release: controllerd serves the APIs that it answers itself in every version that brokers of 2.6 to 3.9
  serve, each difference with its reason in `tests/api/test_native_versions.py`. While no broker is live, controllerd
  still advertises the APIs that it relays to brokers. When a client sends one, controllerd closes the
  connection.
- controllerd does not lead a cluster in which a broker has `zookeeper.metadata.migration.enable=true`. Until it has the
  first answer to DescribeConfigs from such a broker, it may lead. In that time brokers of 3.4 and later forward
  requests of clients in envelopes: controllerd serves those for topics, partitions, elections, reassignments, features
  and SCRAM credentials. It refuses the others (ACLs, configurations, quotas, tokens) with INVALID_REQUEST, which the
  client gets as UNKNOWN_SERVER_ERROR.
- controllerd has no dynamic configuration of its own. `kafka-configs --entity-type brokers --entity-name` with the id
  of controllerd is accepted and changes nothing. It must be accepted, because `kafka-reassign-partitions --verify`
  removes its throttle from every node in the metadata, controllerd included.
"""


def ordered() -> list[tuple[Client, list[Cell]]]:
    """The cells by client, each client once, in the order of the page."""
    order = [source.__name__ for source in SOURCES]
    cells = sorted(CELLS, key=lambda each: order.index(each.run.__module__))
    clients = dict.fromkeys(each.client for each in cells)
    return [(client, [each for each in cells if each.client == client]) for client in clients]


def page() -> str:
    """The whole page."""
    seen = read()
    sections = itertools.chain.from_iterable(_section(*section, seen) for section in ordered())
    return "\n".join(
        [
            HEAD,
            *sections,
            DIFFERENCES + "".join(map(_difference, justified())),
            topic_configs.section(),
            RELEASES + releases.table() + GAPS + gaps.table(),
            TAIL,
        ]
    )


def results(cell: Cell, seen: Seen) -> list[str]:
    """The result of an action by way of each bootstrap server, if a test has seen it."""
    return [cell.result if is_seen(seen, cell, way) else NOT_SEEN for way in WAYS]


def _difference(row: Justified) -> str:
    asks, fields = (", ".join(f"`{item}`" for item in items) for items in (row.asks, row.fields))
    return f"| {asks} | {fields} | {row.why} |\n"


def _section(client: Client, cells: list[Cell], seen: Seen) -> list[str]:
    head = " | ".join(["Action", *(f"From {'a broker' if way == 'broker' else way}" for way in WAYS)])
    rows = [f"| {' | '.join([each.action, *results(each, seen)])} |" for each in cells]
    return [f"## {client.name}\n", f"`{client.main_class}`\n", f"| {head} |", "|---|---|---|", *rows, ""]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
