"""Facts derived from all files together: offline partitions, terms, elections, reassignments, deletions."""

from pathlib import Path

from tests.replay.kafka_logs.cases import (
    brokers,
    changed,
    data,
    elected,
    facts,
    leads,
    line,
    of,
    said,
    shrunk,
    stopped_fetchers,
    won,
)

ONLINE = changed(1, elected("a-0", 2, [2, 3], 0, "NewPartition")) + changed(
    1, elected("b-0", 3, [3], 0, "NewPartition")
)
STATES = ("ts_ms", "topic", "after", "bound")
MOVED = "ReplicaAssignment(replicas=4,1,2, addingReplicas=4, removingReplicas=2)"
HOME = "ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=)"
AWAY = "ReplicaAssignment(replicas=4,1, addingReplicas=, removingReplicas=)"


def test_a_dead_broker_takes_its_partitions_offline(tmp_path: Path) -> None:
    state = ONLINE + changed(10.5, elected("a-0", 3, [3], 1))

    rows = facts(tmp_path, {"state-change.log": state, "controller.log": brokers(10, deleted="2")})

    assert of(rows, "partition_state", *STATES)[2:] == [
        (10.0, "a", "OfflinePartition", "not after"),
        (10.5, "a", "OnlinePartition", "not before"),
    ]
    assert of(rows, "brokers", "ts_ms", "broker", "after", "epoch", "node") == [(10.0, 2, "gone", 5, 1)]
    assert of(rows, "decision", "name", "leader", "isr", "unclean") == [("Offline", 3, [3], False)]


def test_a_leader_outside_of_the_isr_is_unclean(tmp_path: Path) -> None:
    state = ONLINE + changed(11, elected("b-0", 4, [4], 1))

    rows = facts(tmp_path, {"state-change.log": state, "controller.log": brokers(10, deleted="3")})

    assert of(rows, "decision", "topic", "unclean") == [("b", True)]


def test_a_partition_without_leader_is_offline_at_the_line_that_shows_it(tmp_path: Path) -> None:
    rows = facts(tmp_path, {"state-change.log": ONLINE + changed(10, shrunk("b-0", -1, [3], 1))})

    assert of(rows, "partition_state", *STATES)[2:] == [(10.0, "b", "OfflinePartition", "not after")]


def test_a_partition_that_turns_out_to_be_offline_was_so_since_the_last_loss(tmp_path: Path) -> None:
    logs = {
        "controller.log": brokers(10, deleted="7") + brokers(20, added="7"),
        "state-change.log": changed(1, elected("a-0", 1, [1], 0)) + changed(21, elected("c-0", 7, [7], 4)),
    }

    rows = facts(tmp_path, logs)

    assert of(rows, "partition_state", *STATES)[2:] == [
        (10.0, "c", "OfflinePartition", "not after"),
        (21.0, "c", "OnlinePartition", "not before"),
    ]


def test_a_new_controller_finds_the_broker_that_died_with_the_old_one(tmp_path: Path) -> None:
    logs = {
        "one/state-change.log": ONLINE,
        "one/controller.log": won(0.5, 5) + said(0.6, "Currently active brokers in the cluster: Set(1, 2, 3)"),
        "three/controller.log": won(10, 6, node=3)
        + said(10.2, "Currently active brokers in the cluster: Set(1, 3)", node=3)
        + said(10.4, "Ready to serve as the new controller with epoch 6", node=3),
        "three/state-change.log": changed(10.3, elected("a-0", 3, [3], 1), node=3, epoch=6),
    }

    rows = facts(tmp_path, logs)

    assert of(rows, "brokers", "ts_ms", "broker", "after", "bound", "epoch") == [(10.2, 2, "gone", "not after", 6)]
    assert of(rows, "partition_state", *STATES)[2:] == [
        (10.2, "a", "OfflinePartition", "not after"),
        (10.3, "a", "OnlinePartition", "not before"),
    ]
    assert of(rows, "event_end", "name", "took_us", "node") == [("Startup", 400_000, 3)]


def test_a_failed_log_directory_takes_its_partitions_offline(tmp_path: Path) -> None:
    marked = line(10, "[Controller id=1] Mark replicas a-0,b-0 on broker 3 as offline", "state.change.logger")

    rows = facts(tmp_path, {"state-change.log": ONLINE + marked})

    assert of(rows, "partition_state", *STATES)[2:] == [(10.0, "b", "OfflinePartition", "not after")]
    assert of(rows, "offline_dirs", "topic", "broker") == [("a", 3), ("b", 3)]


def test_at_level_trace_the_moment_is_exact_and_answers_have_their_time(tmp_path: Path) -> None:
    state = (
        ONLINE
        + changed(10, "Changed partition a-0 state from OnlinePartition to OfflinePartition")
        + changed(
            10.1, "Sending LeaderAndIsr request to broker 3 with 1 become-leader and 0 become-follower partitions"
        )
        + changed(
            10.35,
            "Received response LeaderAndIsrResponseData(errorCode=0) for request LEADER_AND_ISR with correlation id 5 "
            "sent to broker localhost:9092 (id: 3 rack: null)",
        )
    )

    rows = facts(tmp_path, {"state-change.log": state})

    assert of(rows, "partition_state", *STATES)[2:] == [(10.0, "a", "OfflinePartition", None)]
    assert of(rows, "response", "name", "broker", "took_us", "error") == [("LeaderAndIsr", 3, 250_000, 0)]


def test_controllers_are_ordered_by_epoch_although_their_clocks_differ(tmp_path: Path) -> None:
    logs = {
        "one/state-change.log": ONLINE + changed(12, elected("a-0", 3, [3], 1)),
        "one/controller.log": brokers(11, deleted="2"),
        "two/controller.log": won(10, 6, node=2),
        "two/state-change.log": changed(10.5, elected("a-0", 2, [2], 2, "OnlinePartition"), node=2, epoch=6),
    }

    rows = facts(tmp_path, logs)

    assert of(rows, "leadership", "epoch", "leader_epoch", "ts_ms")[2:] == [(5, 1, 12.0), (6, 2, 10.5)]
    assert [row["seq"] for row in rows] == sorted(int(str(row["seq"])) for row in rows)


def test_lines_before_the_first_that_names_the_epoch_are_of_the_term_that_was_on(tmp_path: Path) -> None:
    logs = {
        "one/controller.log": brokers(10, deleted="9"),
        "one/state-change.log": changed(11, shrunk("a-0", 1, [1], 3)),
        "two/state-change.log": changed(1, shrunk("a-0", 1, [1, 2], 2), node=2, epoch=4),
    }

    rows = facts(tmp_path, logs)

    assert of(rows, "leadership", "epoch", "isr") == [(4, [1, 2]), (5, [1])]
    assert of(rows, "brokers", "epoch", "broker") == [(5, 9)]


def test_hourly_files_follow_each_other_and_the_open_one_is_the_last(tmp_path: Path) -> None:
    logs = {
        "state-change.log": changed(3, shrunk("a-0", 1, [1], 3)),
        "state-change.log.2026-01-31-02": changed(2, shrunk("a-0", 1, [1, 2], 2)),
        "state-change.log.2026-01-31-01": changed(1, shrunk("a-0", 1, [1, 2, 3], 1)),
    }

    rows = facts(tmp_path, logs)

    assert of(rows, "leadership", "leader_epoch") == [(1,), (2,), (3,)]
    assert {row["boot"] for row in rows} == {"state-change.log.2026-01-31-01"}


def test_numbered_files_are_read_from_the_highest_number_on(tmp_path: Path) -> None:
    logs = {
        f"state-change.log{end}": changed(second, shrunk("a-0", 1, [1], second))
        for end, second in (("", 3), (".1", 2), (".2", 1))
    }

    assert of(facts(tmp_path, logs), "leadership", "leader_epoch") == [(1,), (2,), (3,)]


def test_a_reassignment_begins_and_completes(tmp_path: Path) -> None:
    controller = (
        said(10, f"Updating assignment of partition a-0 from {HOME} to {MOVED}")
        + said(10.1, f"Successfully updated assignment of partition a-0 to {MOVED}")
        + said(12, "Target replicas Buffer(4, 1) have all caught up with the leader for reassigning partition a-0")
        + said(12.1, "Leader 2 for partition a-0 being reassigned, is not in the new list of replicas 4,1. Re-electing")
        + said(13, f"Successfully updated assignment of partition a-0 to {AWAY}")
    )
    state = ONLINE + changed(12.2, elected("a-0", 4, [4, 1], 1, "OnlinePartition"))

    rows = facts(tmp_path, {"controller.log": controller, "state-change.log": state})

    assert of(rows, "reassignment", "ts_ms", "after") == [(10.0, "begun"), (12.0, "completing"), (13.0, "completed")]
    assert of(rows, "assignment", "replicas", "adding", "removing") == [([4, 1, 2], [4], [2]), ([4, 1], [], [])]
    assert of(rows, "decision", "name") == [("Reassign",)]


def test_without_the_debug_line_a_reassignment_begins_when_it_is_written(tmp_path: Path) -> None:
    controller = said(10, f"Successfully updated assignment of partition a-0 to {MOVED}") + said(
        13, f"Successfully updated assignment of partition a-0 to {AWAY}"
    )

    rows = facts(tmp_path, {"controller.log": controller, "state-change.log": ONLINE})

    assert of(rows, "reassignment", "ts_ms", "after") == [(10.0, "begun"), (13.0, "completed")]


def test_a_reassignment_is_overridden_and_cancelled(tmp_path: Path) -> None:
    other = "ReplicaAssignment(replicas=5,1,2,4, addingReplicas=5, removingReplicas=2,4)"
    back = "ReplicaAssignment(replicas=1,2,5, addingReplicas=, removingReplicas=5)"
    controller = (
        said(10, f"Updating assignment of partition a-0 from {HOME} to {MOVED}")
        + said(11, f"Updating assignment of partition a-0 from {MOVED} to {other}")
        + said(12, f"Updating assignment of partition a-0 from {other} to {back}")
        + said(13, f"Successfully updated assignment of partition a-0 to {HOME}")
    )

    rows = facts(tmp_path, {"controller.log": controller, "state-change.log": ONLINE})

    assert of(rows, "reassignment", "after") == [("begun",), ("overridden",), ("cancelled",), ("completed",)]


def test_a_deletion_is_no_window_and_ends_with_the_topic(tmp_path: Path) -> None:
    controller = (
        said(10, "Starting topic deletion for topics b")
        + said(10.1, "Deletion of topic b (re)started")
        + said(11, "Halted deletion of topics b due to offline replicas")
        + said(12, "Deletion of topic b (re)started")
        + said(13, "Deletion of topic b successfully completed")
        + said(13.1, "New topics: [Set()], deleted topics: [Set(b)], new partition replica assignment [Set()]")
    )
    state = ONLINE + changed(10.5, shrunk("b-0", -1, [3], 1))

    rows = facts(tmp_path, {"controller.log": controller, "state-change.log": state})

    assert of(rows, "deletion", "after", "reason") == [
        ("queued", None),
        ("started", None),
        ("halted", "offline replicas"),
        ("resumed", None),
    ]
    assert of(rows, "partition_state", *STATES)[2:] == [(13.0, "b", "NonExistentPartition", None)]
    assert of(rows, "topics_forgotten", "topic") == [("b",)]


def test_elections_are_named_by_their_trigger(tmp_path: Path) -> None:
    controller = (
        said(10, "Starting replica leader election (PREFERRED) for partitions a-0 triggered by ZkTriggered")
        + said(20, "Shutting down broker 3")
        + said(30, "Starting replica leader election (PREFERRED) for partitions  triggered by ZkTriggered")
    )
    state = (
        ONLINE
        + changed(11, elected("a-0", 3, [2, 3], 1, "OnlinePartition"))
        + changed(21, elected("a-0", 2, [2], 2, "OnlinePartition"))
        + changed(31, elected("a-0", 3, [2, 3], 3, "OnlinePartition"))
    )

    rows = facts(tmp_path, {"controller.log": controller, "state-change.log": state})

    assert of(rows, "decision", "ts_ms", "name") == [
        (11.0, "Preferred"),
        (21.0, "ControlledShutdown"),
        (31.0, "unknown"),
    ]


def test_an_election_of_a_partition_with_an_unknown_leader_is_not_the_controlled_shutdown_of_broker_0(
    tmp_path: Path,
) -> None:
    controller = said(10, "Shutting down broker 0")
    state = ONLINE + changed(11, elected("c-0", 3, [3], 1, "OnlinePartition"))

    rows = facts(tmp_path, {"state-change.log": state, "controller.log": controller})

    assert of(rows, "decision", "topic", "name") == [("c", "unknown")]


def test_a_leader_epoch_that_was_raised_is_a_leadership(tmp_path: Path) -> None:
    controller = said(10, "Updated leader epoch for partition a-0 to 1, zkVersion=7")

    rows = facts(tmp_path, {"controller.log": controller, "state-change.log": ONLINE})

    assert of(rows, "leadership", "leader", "leader_epoch", "partition_epoch", "isr")[2:] == [(2, 1, 7, [2, 3])]


def test_lines_of_brokers_give_the_moment_of_leadership_and_the_clock_skew(tmp_path: Path) -> None:
    logs = {
        "one/state-change.log": ONLINE + changed(20, elected("a-0", 3, [3], 1, "OnlinePartition")),
        "two/state-change.log": stopped_fetchers(1.2, node=2) + leads(1.25, "a-0", 0, node=2),
        "three/state-change.log": stopped_fetchers(0.3, node=3)
        + leads(0.4, "b-0", 0, node=3)
        + leads(19.5, "a-0", 1, node=3),
    }

    rows = facts(tmp_path, logs)

    assert sorted(of(rows, "broker_leader", "ts_ms", "broker", "epoch", "leader_epoch")) == [
        (0.4, 3, 0, 0),
        (1.25, 2, 0, 0),
        (19.5, 3, 0, 1),
    ]
    assert of(rows, "clock_skew", "node", "broker", "took_us") == [(1, 2, 250_000), (1, 3, -600_000)]
    assert "at least 600 ms behind" in str(of(rows, "clock_skew", "reason")[1][0])


def test_a_leader_that_is_sent_with_a_later_change_leads_from_then_on(tmp_path: Path) -> None:
    state = (
        ONLINE
        + changed(10.1, elected("a-0", 3, [3, 4], 1))
        + changed(10.1, shrunk("a-0", 3, [3], 2))
        + changed(10.2, elected("b-0", 4, [4], 1, "OnlinePartition"))
    )
    logs = {
        "one/controller.log": brokers(10, deleted="2,4"),
        "one/state-change.log": state,
        "three/state-change.log": stopped_fetchers(0.1, node=3) + leads(10.5, "a-0", 2, node=3),
        "four/state-change.log": stopped_fetchers(0.1, node=4) + leads(10.6, "b-0", 2, node=4),
    }

    rows = facts(tmp_path, logs)

    assert of(rows, "broker_leader", "ts_ms", "topic", "leader_epoch", "reason") == [
        (10.5, "a", 2, None),
        (10.5, "a", 1, "sent with leader epoch 2"),
        (10.6, "b", 2, None),
    ]


def test_a_record_has_a_number_and_its_partitions_count_from_zero(tmp_path: Path) -> None:
    state = "".join(changed(1, elected(f"a-{n}", 2, [2], 0, "NewPartition")) for n in range(3))

    rows = facts(tmp_path, {"state-change.log": state, "controller.log": brokers(10, deleted="2,3")})

    offline = [row for row in rows if row["after"] == "OfflinePartition"]
    assert [(row["seq"], row["row"]) for row in offline] == [(offline[0]["seq"], number) for number in range(3)]
    places = [(row["seq"], row["row"]) for row in rows]
    assert len(set(places)) == len(places)


def test_every_fact_has_the_columns_and_the_place_of_its_line(tmp_path: Path) -> None:
    rows = facts(tmp_path, {"state-change.log": ONLINE}, cluster="blue", zone="Asia/Tokyo")

    assert {(row["cluster"], row["source"], row["event"], row["date"]) for row in rows} == {
        ("blue", "kafka", 0, "2026-01-30")
    }
    assert all(row["mono_us"] == 1000 * int(str(row["ts_ms"])) for row in rows)
    assert data(rows[-1])["entries"] == 2
