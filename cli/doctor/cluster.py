"""Checks of the cluster and the daemon: pure functions of what was gathered."""

from collections.abc import Iterator, Sequence
from typing import Final

from cli.doctor.facts import ZOOKEEPER_IS_AWAY, Facts, Sight, View
from cli.doctor.verdicts import critical, listed, ok, unknown, warning
from cli.settings import DEFAULT_API
from controllerd.core.counted import counted
from controllerd.errors import BadZnode
from controllerd.status.schema.why import Finding
from controllerd.zk import codecs, paths
from controllerd.zk.survey import Survey

NO_CONTROLLER: Final = -1
"""What a broker says that knows of none."""
CONNECTED: Final = "connected"
"""The state of a ZooKeeper session with which all is well."""
_WANTS_ZK: Final = "name ZooKeeper, too: --zk HOSTS"


def check_all(facts: Facts) -> Iterator[Finding]:
    """Every check, also those that find nothing or cannot be made."""
    yield daemon(facts)
    yield controllers(facts)
    if facts.view is not None:
        yield from partitions(facts.view) if facts.knows_cluster else unseen(facts.view)
    yield from znodes(facts)
    yield listeners(facts)
    if facts.is_daemon and facts.view is not None:
        yield cluster_settings(facts.view)
        yield audit(facts.view)
        yield requests(facts.view)


def partitions(view: View) -> Iterator[Finding]:
    """The checks of brokers, topics and partitions."""
    yield brokers(view)
    yield offline_partitions(view)
    yield isr_below_minimum(view)
    yield quarantine(view)
    yield deletions(view)
    yield uncovered(view)


def unseen(view: View) -> Iterator[Finding]:
    """That the instance which was asked could not make these checks."""
    hint = "ask the instance that leads (--api URL), or ZooKeeper: --zk HOSTS"
    names = ("brokers", "offline-partitions", "isr-below-min", "quarantine", "deletions", "listeners-of-controller")
    for name in names:
        yield unknown(name, f"a {view.status.role} knows no partitions", hint)


def znodes(facts: Facts) -> Iterator[Finding]:
    """The checks of ZooKeeper, or that they could not be made."""
    if facts.survey is None:
        names = ("zombie-reassignments", "orphan-topics", "duplicate-ids", "clock-skew", "zookeeper-latency")
        for name in names:
            yield unknown(name, f"ZooKeeper was not read: {facts.no_survey}", _WANTS_ZK)
        return
    from cli.doctor.znodes import check_znodes

    yield from check_znodes(facts.survey, facts.now_ms)


def daemon(facts: Facts) -> Finding:
    """Whether the daemon answers and is well by its own account."""
    check = "daemon"
    if not facts.is_daemon:
        if facts.is_daemon_expected:
            return critical(check, facts.no_daemon, "start controllerd, or name its address with --api URL")
        detail = f"no daemon was asked: --zk alone reads ZooKeeper; --api {DEFAULT_API} asks the one on this host, too"
        return unknown(check, detail, f"controllerctl doctor --zk HOSTS --api {DEFAULT_API}")
    assert facts.view is not None
    status = facts.view.status
    failed = [f"{one.name}: {one.detail}" for one in facts.health.checks if not one.ok] if facts.health else []
    if failed:
        hint = "journalctl -u 'controllerd@*' tells more; controllerctl status shows what it does"
        if status.zookeeper.state != CONNECTED:
            hint = ZOOKEEPER_IS_AWAY
        verdict = warning if facts.health is not None and facts.health.ok else critical
        return verdict(check, f"{status.role}, not well: {listed(failed)}", hint)
    return ok(check, f"{status.role}: {status.reason}; version {status.version}")


def controllers(facts: Facts) -> Finding:
    """There must be one controller, and everybody must mean the same."""
    check = "two-controllers"
    told = _holder_told(facts.survey)
    if facts.survey is not None and told is None:
        return critical(check, "/controller does not exist: nobody leads", "start a broker or controllerd")
    if isinstance(told, BadZnode):
        return critical(check, f"/controller cannot be understood: {told.reason}", "find out who wrote it")
    if facts.view is None:
        return unknown(check, "neither ZooKeeper nor a daemon could be asked", "give --zk HOSTS or --api URL")
    status = facts.view.status
    if status.holder is None and status.zookeeper.state != CONNECTED and facts.survey is None:
        detail = f"it cannot be told who leads: the ZooKeeper session of this instance is {status.zookeeper.state}"
        return critical(check, detail, f"controllerctl doctor --zk HOSTS; {ZOOKEEPER_IS_AWAY}")
    if status.holder is None:
        return critical(check, "nobody holds the role of the controller", "start a broker or controllerd")
    if facts.is_daemon and told is not None and told != (status.holder.node_id, status.holder.instance):
        detail = f"/controller names {told[0]}, but controllerd {status.node_id} ({status.role}) names {status.holder}"
        return critical(check, detail, "repeat this; if it stays so: controllerctl resign on the one that is deposed")
    if status.role == "active" and status.holder.instance != status.instance:
        detail = f"controllerd {status.node_id} believes to lead, but {status.holder} holds the role"
        return critical(check, detail, "repeat this; if it stays so, restart that instance")
    astray = [sight for sight in facts.sights if sight.controller not in {None, status.holder.node_id}]
    if astray:
        return _astray(check, astray, f"{status.holder} leads")
    agree = sum(sight.controller is not None for sight in facts.sights)
    said = f", and {counted(agree, 'broker')} {'says' if agree == 1 else 'say'} so" if agree else ""
    return ok(check, f"one controller: {status.holder} since {status.holder.since}{said}")


def _astray(check: str, astray: Sequence[Sight], leads: str) -> Finding:
    """Brokers that were not told, or listen to somebody else: for a moment that is so after every election."""
    named = [
        f"broker {one.broker} sees {'none' if one.controller == NO_CONTROLLER else one.controller}" for one in astray
    ]
    hint = "repeat this; if it stays so: controllerctl get requests -o wide shows what those brokers were not told"
    return critical(check, f"{leads}, but {listed(named)}", hint)


def _holder_told(survey: Survey | None) -> tuple[int, str | None] | BadZnode | None:
    node = survey.picture.nodes.get(paths.CONTROLLER) if survey is not None else None
    if node is None:
        return None
    try:
        found = codecs.decode_controller(node.data)
    except BadZnode as bad:
        return bad
    return found.broker_id, found.instance


def brokers(view: View) -> Finding:
    """Whether everybody is there who has replicas."""
    if not view.gone:
        return ok(
            "brokers",
            f"everybody is registered who holds replicas; {counted(len(view.status.brokers), 'broker')} in all",
        )
    named = f"broker{'s' if len(view.gone) > 1 else ''} {listed([str(broker) for broker in view.gone])}"
    verb = "hold replicas and are" if len(view.gone) > 1 else "holds replicas and is"
    hint = (
        f"start {'them' if len(view.gone) > 1 else 'it'}; controllerctl describe broker {view.gone[0]} says since when"
    )
    return warning("brokers", f"{named} {verb} gone", hint)


def offline_partitions(view: View) -> Finding:
    """Whether every partition has a leader."""
    if not view.offline_total:
        return ok("offline-partitions", f"each of {counted(view.status.counts.partitions, 'partition')} has a leader")
    names = [f"{one.topic}-{one.partition}" for one in view.offline]
    hint = f"controllerctl why {names[0]}" if names else "controllerctl get partitions --offline"
    have = "has" if view.offline_total == 1 else "have"
    detail = f"{counted(view.offline_total, 'partition')} {have} no leader: {listed(names, view.offline_total)}"
    return critical("offline-partitions", detail, hint)


def isr_below_minimum(view: View) -> Finding:
    """Producers with acks=all are refused where the ISR is smaller than ``min.insync.replicas``."""
    check = "isr-below-min"
    if view.under_min_isr_total:
        names = [f"{one.topic}-{one.partition}" for one in view.under_min_isr]
        verb = "refuses" if view.under_min_isr_total == 1 else "refuse"
        number = counted(view.under_min_isr_total, "partition")
        detail = f"{number} {verb} acks=all: {listed(names, view.under_min_isr_total)}"
        every = "controllerctl get partitions --under-min-isr"
        return critical(check, detail, f"controllerctl why {names[0]}" if names else every)
    thin = view.status.counts.under_replicated
    if thin:
        known = "none below min.insync.replicas"
        below = known if view.under_min_isr_total is not None else "min.insync.replicas is not known here"
        hint = "controllerctl get partitions --under-replicated"
        are = f"{counted(thin, 'partition')} {'is' if thin == 1 else 'are'}"
        return warning(check, f"{are} under-replicated, {below}", hint)
    return ok(check, "every ISR is complete")


def quarantine(view: View) -> Finding:
    """Znodes that cannot be understood are left alone, and so is what they are about."""
    found = view.status.quarantined
    if not found:
        return ok("quarantine", "every znode can be understood")
    detail = f"{counted(len(found), 'znode')} left alone: {listed([f'{one.path} ({one.reason})' for one in found])}"
    return critical("quarantine", detail, "compare them with those of a sound topic; zookeeper-shell can repair them")


def deletions(view: View) -> Finding:
    """Whether deletions of topics go on."""
    held = [f"{one.topic} ({one.held_up_by})" for one in view.status.deletions if one.held_up_by]
    if not held:
        return ok("deletions", f"{counted(len(view.status.deletions), 'topic')} being deleted, none held up")
    return warning("deletions", f"held up: {listed(held)}", "controllerctl get deletions -o wide names the brokers")


def uncovered(view: View) -> Finding:
    """Whether the clients of every listener find the controller."""
    found = [f"{one.listener} ({one.reason})" for one in view.status.uncovered]
    if not found:
        return ok("listeners-of-controller", "no listener is known whose clients see no controller")
    detail = f"clients see no controller on {listed(found)}"
    return warning("listeners-of-controller", detail, "add them to kafka.listeners of controllerd")


def cluster_settings(view: View) -> Finding:
    """Check that brokers, and the configuration of the daemon, agree on the settings of the cluster."""
    found = [one.problem for one in view.status.settings]
    if not found:
        return ok("cluster-settings", "brokers and configuration agree on the settings of the cluster")
    return warning("cluster-settings", listed(found), "controllerctl get settings -o wide shows what each broker says")


def listeners(facts: Facts) -> Finding:
    """Whether somebody answers where brokers say that they listen."""
    check = "listeners"
    if not facts.knocks:
        return unknown(
            check, "no listeners are known", "a standby knows no brokers: ask the leader, or give --zk HOSTS"
        )
    silent = [f"{one.owner} {one.listener} {one.address} ({one.error})" for one in facts.knocks if one.error]
    if not silent:
        return ok(check, f"each of {counted(len(facts.knocks), 'listener')} can be connected to from here")
    hint = "is the broker up, the name resolvable, and no firewall between? It counts from the controller's host"
    return critical(check, f"{len(silent)} of {len(facts.knocks)} cannot be reached: {listed(silent)}", hint)


def audit(view: View) -> Finding:
    """Whether the audit log is written."""
    log = view.status.audit
    if log.trouble:
        return critical("audit", f"the audit log cannot be written: {log.trouble}", "see audit.dir: space, and rights")
    if log.records_lost:
        hint = "controllerctl audit verify DIR shows the gaps"
        return warning("audit", f"{counted(log.records_lost, 'record')} of the audit log lost", hint)
    return ok("audit", f"{counted(log.records_written, 'record')} written, none lost")


def requests(view: View) -> Finding:
    """Whether the controller reaches every broker."""
    check = "control-requests"
    if view.status.role != "active":
        return ok(check, f"as {view.status.role} it sends none")
    bad = [f"broker {one.id} ({one.error})" for one in view.status.brokers if one.error]
    if bad:
        return critical(check, f"the controller cannot reach {listed(bad)}", "controllerctl get requests -o wide")
    told = len(view.status.brokers)
    return ok(check, f"{counted(told, 'broker')} {'is' if told == 1 else 'are'} told everything")
