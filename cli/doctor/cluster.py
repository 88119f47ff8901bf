"""Checks of the cluster and the daemon: pure functions of the facts."""

from collections.abc import Iterator, Sequence
from typing import Final

from cli.doctor.facts import (
    ZOOKEEPER_IS_AWAY,
    CheckedCluster,
    Facts,
    SeenController,
    critical,
    listed,
    ok,
    unknown,
    warning,
)
from cli.settings import DEFAULT_API
from controllerd.core.text import counted
from controllerd.errors import BadZnode
from controllerd.status.schema.common import Finding
from controllerd.zk import codecs, paths
from controllerd.zk.survey import Survey

NO_CONTROLLER: Final = -1
"""The controller id in the metadata of a broker that knows no controller."""
CONNECTED: Final = "connected"
"""The state of a healthy ZooKeeper session."""
_NEEDS_ZK: Final = "name ZooKeeper, too: --zk HOSTS"


def check_all(facts: Facts) -> Iterator[Finding]:
    """Run every check; some find nothing, or cannot be made."""
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


def partitions(view: CheckedCluster) -> Iterator[Finding]:
    """Run the checks of brokers, topics and partitions."""
    yield brokers(view)
    yield offline_partitions(view)
    yield isr_below_minimum(view)
    yield quarantine(view)
    yield deletions(view)
    yield uncovered(view)


def unseen(view: CheckedCluster) -> Iterator[Finding]:
    """Report that this instance cannot make the checks of partitions."""
    hint = "ask the active controller (--api URL), or ZooKeeper: --zk HOSTS"
    names = ("brokers", "offline-partitions", "isr-below-min", "quarantine", "deletions", "listeners-of-controller")
    for name in names:
        yield unknown(name, f"a {view.status.role} knows no partitions", hint)


def znodes(facts: Facts) -> Iterator[Finding]:
    """Run the checks of ZooKeeper, or report that they could not be made."""
    if facts.survey is None:
        names = ("zombie-reassignments", "orphan-topics", "duplicate-ids", "clock-skew", "zookeeper-latency")
        for name in names:
            yield unknown(name, f"ZooKeeper was not read: {facts.no_survey}", _NEEDS_ZK)
        return
    from cli.doctor.znodes import check_znodes

    yield from check_znodes(facts.survey, facts.now_ms)


def daemon(facts: Facts) -> Finding:
    """Check that the daemon answers and reports no failed check of its own."""
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
        hint = "journalctl -u 'controllerd@*' has details; controllerctl status shows its state"
        if status.zookeeper.state != CONNECTED:
            hint = ZOOKEEPER_IS_AWAY
        severity = warning if facts.health is not None and facts.health.ok else critical
        return severity(check, f"{status.role}, failed checks: {listed(failed)}", hint)
    return ok(check, f"{status.role}: {status.reason}; version {status.version}")


def controllers(facts: Facts) -> Finding:
    """Check that there is one controller, and that ZooKeeper, the daemon and all brokers name the same one."""
    check = "two-controllers"
    named = _holder_in_zookeeper(facts.survey)
    if facts.survey is not None and named is None:
        return critical(check, "/controller does not exist: there is no controller", "start a broker or controllerd")
    if isinstance(named, BadZnode):
        return critical(check, f"/controller cannot be decoded: {named.reason}", "find out which client wrote it")
    if facts.view is None:
        return unknown(check, "neither ZooKeeper nor a daemon could be asked", "give --zk HOSTS or --api URL")
    status = facts.view.status
    if status.holder is None and status.zookeeper.state != CONNECTED and facts.survey is None:
        detail = f"the controller is not known: the ZooKeeper session of this instance is {status.zookeeper.state}"
        return critical(check, detail, f"controllerctl doctor --zk HOSTS; {ZOOKEEPER_IS_AWAY}")
    if status.holder is None:
        return critical(check, "there is no controller", "start a broker or controllerd")
    if facts.is_daemon and named is not None and named != (status.holder.node_id, status.holder.instance):
        detail = f"/controller names {named[0]}, but controllerd {status.node_id} ({status.role}) names {status.holder}"
        return critical(check, detail, "repeat this; if it persists: controllerctl resign on the deposed instance")
    if status.role == "active" and status.holder.instance != status.instance:
        detail = f"controllerd {status.node_id} believes to be the controller, but {status.holder} is"
        return critical(check, detail, "repeat this; if it persists, restart that instance")
    disagreeing = [seen for seen in facts.seen_controllers if seen.controller not in {None, status.holder.node_id}]
    if disagreeing:
        return _disagreement(check, disagreeing, f"{status.holder} is the controller")
    agree = sum(seen.controller is not None for seen in facts.seen_controllers)
    said = f", and {counted(agree, 'broker')} {'says' if agree == 1 else 'say'} so" if agree else ""
    return ok(check, f"one controller: {status.holder} since {status.holder.since}{said}")


def _disagreement(check: str, disagreeing: Sequence[SeenController], leads: str) -> Finding:
    """Report brokers that name another controller: a moment after an election every broker does."""
    named = [
        f"broker {one.broker} sees {'none' if one.controller == NO_CONTROLLER else one.controller}"
        for one in disagreeing
    ]
    hint = "repeat this; if it persists: controllerctl get requests -o wide shows the requests that these brokers lack"
    return critical(check, f"{leads}, but {listed(named)}", hint)


def _holder_in_zookeeper(survey: Survey | None) -> tuple[int, str | None] | BadZnode | None:
    node = survey.image.nodes.get(paths.CONTROLLER) if survey is not None else None
    if node is None:
        return None
    try:
        found = codecs.decode_controller(node.data)
    except BadZnode as bad:
        return bad
    return found.broker_id, found.instance


def brokers(view: CheckedCluster) -> Finding:
    """Check that every broker with replicas is registered."""
    if not view.gone:
        return ok(
            "brokers",
            f"every broker with replicas is registered; {counted(len(view.status.brokers), 'broker')} in all",
        )
    named = f"broker{'s' if len(view.gone) > 1 else ''} {listed([str(broker) for broker in view.gone])}"
    verb = "hold replicas and are" if len(view.gone) > 1 else "holds replicas and is"
    hint = (
        f"start {'them' if len(view.gone) > 1 else 'it'}; controllerctl describe broker {view.gone[0]} shows since when"
    )
    return warning("brokers", f"{named} {verb} not registered", hint)


def offline_partitions(view: CheckedCluster) -> Finding:
    """Check that every partition has a leader."""
    if not view.offline_total:
        return ok("offline-partitions", f"each of {counted(view.status.counts.partitions, 'partition')} has a leader")
    names = [f"{one.topic}-{one.partition}" for one in view.offline]
    hint = f"controllerctl why {names[0]}" if names else "controllerctl get partitions --offline"
    have = "has" if view.offline_total == 1 else "have"
    detail = f"{counted(view.offline_total, 'partition')} {have} no leader: {listed(names, view.offline_total)}"
    return critical("offline-partitions", detail, hint)


def isr_below_minimum(view: CheckedCluster) -> Finding:
    """Check every ISR against ``min.insync.replicas``: below it, producers with acks=all are refused."""
    check = "isr-below-min"
    if view.under_min_isr_total:
        names = [f"{one.topic}-{one.partition}" for one in view.under_min_isr]
        verb = "refuses" if view.under_min_isr_total == 1 else "refuse"
        number = counted(view.under_min_isr_total, "partition")
        detail = f"{number} {verb} acks=all: {listed(names, view.under_min_isr_total)}"
        every = "controllerctl get partitions --under-min-isr"
        return critical(check, detail, f"controllerctl why {names[0]}" if names else every)
    under_replicated = view.status.counts.under_replicated
    if under_replicated:
        known = "none below min.insync.replicas"
        below = known if view.under_min_isr_total is not None else "min.insync.replicas is not known here"
        hint = "controllerctl get partitions --under-replicated"
        are = f"{counted(under_replicated, 'partition')} {'is' if under_replicated == 1 else 'are'}"
        return warning(check, f"{are} under-replicated, {below}", hint)
    return ok(check, "every ISR is complete")


def quarantine(view: CheckedCluster) -> Finding:
    """Check for znodes in quarantine: they cannot be decoded, so their topics and partitions are left alone."""
    found = view.status.quarantined
    if not found:
        return ok("quarantine", "every znode can be decoded")
    detail = f"{counted(len(found), 'znode')} left alone: {listed([f'{one.path} ({one.reason})' for one in found])}"
    return critical(
        "quarantine", detail, "compare them with the znodes of another topic; zookeeper-shell can repair them"
    )


def deletions(view: CheckedCluster) -> Finding:
    """Check that no deletion of a topic is blocked."""
    held = [f"{one.topic} ({one.held_up_by})" for one in view.status.deletions if one.held_up_by]
    if not held:
        return ok("deletions", f"{counted(len(view.status.deletions), 'topic')} being deleted, none blocked")
    return warning("deletions", f"blocked: {listed(held)}", "controllerctl get deletions -o wide names the brokers")


def uncovered(view: CheckedCluster) -> Finding:
    """Check that the clients of every listener find the controller."""
    found = [f"{one.listener} ({one.reason})" for one in view.status.uncovered]
    if not found:
        return ok("listeners-of-controller", "the clients of every known listener see the controller")
    detail = f"clients see no controller on {listed(found)}"
    return warning("listeners-of-controller", detail, "add them to kafka.listeners of controllerd")


def cluster_settings(view: CheckedCluster) -> Finding:
    """Check that brokers and the configuration of the daemon agree on the settings of the cluster."""
    found = [one.problem for one in view.status.settings]
    if not found:
        return ok("cluster-settings", "brokers and configuration agree on the settings of the cluster")
    return warning(
        "cluster-settings", listed(found), "controllerctl get settings -o wide shows the value of each broker"
    )


def listeners(facts: Facts) -> Finding:
    """Check that the listeners of brokers accept connections."""
    check = "listeners"
    if not facts.probes:
        return unknown(
            check, "no listeners are known", "a standby knows no brokers: ask the active controller, or give --zk HOSTS"
        )
    silent = [f"{one.owner} {one.listener} {one.address} ({one.error})" for one in facts.probes if one.error]
    if not silent:
        return ok(check, f"each of {counted(len(facts.probes), 'listener')} accepts connections from here")
    hint = "check the broker, its name and firewalls; what counts is a connection from the controller's host"
    return critical(check, f"{len(silent)} of {len(facts.probes)} cannot be reached: {listed(silent)}", hint)


def audit(view: CheckedCluster) -> Finding:
    """Check that the audit log is written."""
    log = view.status.audit
    if log.trouble:
        return critical(
            "audit", f"the audit log cannot be written: {log.trouble}", "check the space and permissions of audit.dir"
        )
    if log.records_lost:
        hint = "controllerctl audit verify DIR shows the gaps"
        return warning("audit", f"{counted(log.records_lost, 'record')} of the audit log lost", hint)
    return ok("audit", f"{counted(log.records_written, 'record')} written, none lost")


def requests(view: CheckedCluster) -> Finding:
    """Check that the controller reaches every broker."""
    check = "control-requests"
    if view.status.role != "active":
        return ok(check, f"as {view.status.role} it sends none")
    bad = [f"broker {one.id} ({one.error})" for one in view.status.brokers if one.error]
    if bad:
        return critical(check, f"the controller cannot reach {listed(bad)}", "controllerctl get requests -o wide")
    reached = len(view.status.brokers)
    return ok(check, f"{counted(reached, 'broker')} {'has' if reached == 1 else 'have'} every request")
