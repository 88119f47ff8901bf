"""The windows in which partitions had no leader.

A partition is followed in the order of the records (epoch, node, boot, number), never by the clock:

- It loses its leader when it becomes offline or its leadership says -1, whichever comes first, and has one again when
  it is online and its leadership names one, whichever comes last.
- A window that is open when the deletion of its topic is requested ends there, as `deleted`. After that none opens. A
  window that the event of the deletion both opened and ended is left out. Kafka's own logs have no numbers of events:
  there a window that a deletion ended is left out if it was shorter than a second.
- A new partition counts only if it is still without a leader at the end of the event that created it. In logs without
  numbers of events it counts only if an election for it was refused. Its window begins with its creation.
- Repetitions in the opening snapshot of a term are no change. A window that is first seen in such a snapshot began then
  or earlier: its start is `not after`. A window that ends with a leader read from a snapshot ended then or earlier: its
  end is `not after`. If a partition is missing in the next opening snapshot, its window ends there, as `unknown`.
- A window in Kafka's own logs ends where a broker says that it leads, if the log of that broker is there. Otherwise it
  ends with the election by the controller, and the real end is then or later (`not before`).
"""

from typing import Final

SNAPSHOTS: Final = """
SELECT cluster, node, boot, epoch, event,
    COALESCE(MIN(CASE WHEN kind = 'snapshot_begin' THEN seq END), 0) AS first_seq,
    COALESCE(MAX(CASE WHEN kind = 'snapshot_end' THEN seq END), 9223372036854775807) AS last_seq,
    MIN(ts_ms) AS begin_ms,
    MIN(mono_us) AS begin_us
FROM facts
WHERE kind IN ('snapshot_begin', 'snapshot_end') AND epoch > 0
GROUP BY cluster, node, boot, epoch, event
"""
"""One row per event with a snapshot: the event that opened the term; 0 stands for all periodic snapshots of a boot."""

OPENINGS: Final = """
SELECT cluster, epoch, node, boot, event, first_seq, begin_ms, begin_us
FROM snapshots
WHERE event <> 0
QUALIFY ROW_NUMBER() OVER (
    PARTITION BY cluster, epoch ORDER BY node NULLS FIRST, boot NULLS FIRST, event NULLS FIRST
) = 1
"""
"""The snapshot that opened each epoch."""

NEXT_OPENINGS: Final = """
SELECT k.cluster, k.epoch,
    MIN(o.epoch) OVER (
        PARTITION BY k.cluster ORDER BY k.epoch NULLS FIRST ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS next_opening
FROM (SELECT DISTINCT cluster, epoch FROM facts WHERE epoch > 0) k
LEFT JOIN openings o ON o.cluster = k.cluster AND o.epoch = k.epoch
"""
"""For every epoch the next one with an opening snapshot in the logs."""

SUSPECTS: Final = """
SELECT DISTINCT cluster, topic, partition
FROM facts
WHERE epoch > 0 AND (
    (kind = 'leadership' AND leader < 0)
    OR (kind = 'partition_state' AND (before = 'OfflinePartition' OR after IN ('OfflinePartition', 'NewPartition')))
)
"""
"""Partitions that ever lacked a leader. It is a result of its own, because later queries join with it: an engine that
knows its small size keeps this result in memory instead of the facts."""

LEADER_FACTS: Final = """
WITH reported AS (
    SELECT f.cluster, f.topic, f.partition, f.epoch, f.node, f.boot, f.seq, f.row, f.event, f.ts_ms, f.mono_us,
        f.source, f.bound, f.reason, f.name, f.kind, f.after, f.leader, f.leader_epoch, f.unclean
    FROM facts f
    JOIN suspects s ON s.cluster = f.cluster AND s.topic = f.topic AND s.partition = f.partition
    WHERE f.epoch > 0 AND f.kind IN ('partition_state', 'leadership', 'decision', 'refused', 'assignment')
    UNION ALL
    SELECT f.cluster, f.topic, s.partition, f.epoch, f.node, f.boot, f.seq, f.row, f.event, f.ts_ms, f.mono_us,
        f.source, f.bound, f.reason, f.name, f.kind, f.after, f.leader, f.leader_epoch, f.unclean
    FROM facts f
    JOIN suspects s ON s.cluster = f.cluster AND s.topic = f.topic
    WHERE f.epoch > 0 AND f.kind IN ('deletion', 'topics_forgotten')
),
placed AS (
    SELECT t.*,
        p.epoch IS NOT NULL AS with_snapshot,
        COALESCE(t.seq BETWEEN p.first_seq AND p.last_seq, FALSE) AS in_snapshot,
        COALESCE(t.event <> 0 AND t.seq BETWEEN p.first_seq AND p.last_seq, FALSE) AS in_opening
    FROM reported t
    LEFT JOIN snapshots p
        ON p.cluster = t.cluster AND p.node = t.node AND p.boot = t.boot AND p.epoch = t.epoch AND p.event = t.event
)
SELECT * FROM placed WHERE kind <> 'assignment' OR in_snapshot
"""
"""All facts about partitions that ever lacked a leader; the other partitions are left out early."""

LEADER_STATES: Final = """
WITH neighbours AS (
    SELECT t.*, n.next_opening,
        LAG(t.epoch) OVER w AS epoch_before,
        LAG(n.next_opening) OVER w AS opening_before,
        LEAD(t.epoch) OVER w AS epoch_after,
        LEAD(t.in_opening) OVER w AS opened_after
    FROM leader_facts t
    JOIN next_openings n ON n.cluster = t.cluster AND n.epoch = t.epoch
    WINDOW w AS (
        PARTITION BY t.cluster, t.topic, t.partition
        ORDER BY t.epoch NULLS FIRST, t.node NULLS FIRST, t.boot NULLS FIRST, t.seq NULLS FIRST, t.row NULLS FIRST
    )
),
marked AS (
    SELECT *,
        COALESCE(opening_before < epoch OR (opening_before = epoch AND NOT in_opening), FALSE) AS was_absent,
        next_opening IS NOT NULL
            AND (epoch_after IS NULL
                OR next_opening < epoch_after
                OR (next_opening = epoch_after AND NOT opened_after)) AS will_be_absent
    FROM neighbours
),
own AS (
    SELECT *,
        CASE WHEN kind = 'partition_state' THEN after
            WHEN kind = 'topics_forgotten' THEN 'NonExistentPartition'
            WHEN was_absent THEN 'Unknown' END AS own_state,
        CASE WHEN kind = 'leadership' THEN leader
            WHEN kind = 'topics_forgotten' OR was_absent THEN -2 END AS own_leader,
        CASE WHEN kind = 'leadership' AND leader >= 0 THEN leader
            WHEN kind = 'topics_forgotten' OR was_absent THEN -2 END AS own_last_leader,
        CASE WHEN kind = 'leadership' THEN in_snapshot END AS own_read,
        CASE WHEN kind = 'deletion' THEN TRUE
            WHEN kind = 'topics_forgotten' OR was_absent OR epoch <> epoch_before THEN FALSE END AS own_requested,
        CASE WHEN kind = 'decision' THEN unclean
            WHEN after IN ('OfflinePartition', 'NewPartition') OR leader < 0 THEN FALSE END AS own_unclean
    FROM marked
),
carried AS (
    SELECT cluster, topic, partition, epoch, node, boot, seq, row, event, ts_ms, mono_us, source, bound, reason, name,
        kind, with_snapshot, next_opening, was_absent, will_be_absent,
        LAST_VALUE(own_state) IGNORE NULLS OVER w AS state,
        LAST_VALUE(own_leader) IGNORE NULLS OVER w AS leader,
        LAST_VALUE(own_last_leader) IGNORE NULLS OVER w AS last_leader,
        LAST_VALUE(leader_epoch) IGNORE NULLS OVER w AS leader_epoch,
        LAST_VALUE(own_read) IGNORE NULLS OVER w AS was_read,
        LAST_VALUE(own_requested) IGNORE NULLS OVER w AS deletion_requested,
        LAST_VALUE(own_unclean) IGNORE NULLS OVER w AS unclean
    FROM own
    WINDOW w AS (
        PARTITION BY cluster, topic, partition
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT *,
    CASE WHEN COALESCE(deletion_requested, FALSE) OR COALESCE(state, '') = 'NonExistentPartition' THEN 0
        WHEN state IN ('OfflinePartition', 'NewPartition') OR leader = -1 THEN 1
        ELSE 0 END AS lacks
FROM carried
"""
"""The known state of the partition after each of these facts, and whether it lacked a leader.

- `was_absent`: an opening snapshot between the fact before and this one lacks the partition.
- `will_be_absent`: the next opening snapshot after this fact lacks the partition.
- A leader of -2 is not known; -1 is Kafka's value for no leader.
- `lacks` is 1 if the partition had no leader after this fact.
"""

LEADER_SPANS: Final = """
WITH edges AS (
    SELECT *,
        CASE WHEN was_absent THEN 0 ELSE COALESCE(LAG(lacks) OVER w, 0) END AS lacked
    FROM leader_states
    WINDOW w AS (
        PARTITION BY cluster, topic, partition
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    )
),
counted AS (
    SELECT *,
        CASE WHEN lacks = 1 AND lacked = 0 THEN 1 ELSE 0 END AS opens,
        SUM(CASE WHEN lacks = 1 AND lacked = 0 THEN 1 ELSE 0 END) OVER (
            PARTITION BY cluster, topic, partition
            ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS number
    FROM edges
    WHERE lacks = 1 OR lacked = 1
)
SELECT cluster, topic, partition, number,
    MAX(CASE WHEN opens = 1 THEN ts_ms END) AS start_ms,
    MAX(CASE WHEN opens = 1 THEN mono_us END) AS start_us,
    MAX(CASE WHEN opens = 1 THEN source END) AS source,
    MAX(CASE WHEN opens = 1 THEN COALESCE(bound, CASE WHEN with_snapshot THEN 'not after' END) END) AS start_bound,
    MAX(CASE WHEN opens = 1 THEN state END) AS start_state,
    MAX(CASE WHEN opens = 1 THEN reason END) AS start_reason,
    MAX(CASE WHEN opens = 1 THEN last_leader END) AS leader_before,
    MAX(CASE WHEN opens = 1 THEN epoch END) AS start_epoch,
    MAX(CASE WHEN opens = 1 THEN node END) AS start_node,
    MAX(CASE WHEN opens = 1 THEN boot END) AS start_boot,
    MAX(CASE WHEN opens = 1 THEN seq END) AS start_seq,
    MAX(CASE WHEN opens = 1 THEN event END) AS start_event,
    MAX(CASE WHEN kind = 'refused' AND name NOT IN ('AlterPartition', 'AlterIsr', 'Preferred', 'replica_state')
        THEN 1 ELSE 0 END) AS refusals,
    MAX(CASE WHEN lacks = 0 AND unclean AND NOT was_read THEN 1 ELSE 0 END) AS unclean,
    MAX(CASE WHEN lacks = 0 THEN 1 ELSE 0 END) AS closed,
    MAX(CASE WHEN lacks = 0 AND (deletion_requested OR state = 'NonExistentPartition') THEN 1 ELSE 0 END) AS deleted,
    MAX(CASE WHEN lacks = 0 THEN ts_ms END) AS end_ms,
    MAX(CASE WHEN lacks = 0 THEN mono_us END) AS end_us,
    MAX(CASE WHEN lacks = 0 THEN
        COALESCE(bound, CASE WHEN deletion_requested OR state = 'NonExistentPartition' THEN NULL
            WHEN was_read THEN 'not after' WHEN source = 'kafka' THEN 'not before' END) END) AS end_bound,
    MAX(CASE WHEN lacks = 0 THEN leader END) AS leader_after,
    MAX(CASE WHEN lacks = 0 THEN leader_epoch END) AS leader_epoch,
    MAX(CASE WHEN lacks = 0 THEN epoch END) AS end_epoch,
    MAX(CASE WHEN lacks = 0 THEN node END) AS end_node,
    MAX(CASE WHEN lacks = 0 THEN boot END) AS end_boot,
    MAX(CASE WHEN lacks = 0 THEN seq END) AS end_seq,
    MAX(CASE WHEN lacks = 0 THEN event END) AS end_event,
    MAX(CASE WHEN lacks = 1 AND will_be_absent THEN next_opening END) AS lost_in
FROM counted
GROUP BY cluster, topic, partition, number
"""
"""One row per stretch without a leader: its first fact, and the one that ended it."""

LEADER_ENDS: Final = """
WITH led AS (
    SELECT cluster, topic, partition, leader_epoch, ts_ms, mono_us, node, boot, seq, event, bound
    FROM facts
    WHERE kind = 'broker_leader'
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY cluster, topic, partition, leader_epoch
        ORDER BY ts_ms NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    ) = 1
),
ended AS (
    SELECT s.cluster, s.topic, s.partition, s.number, s.start_ms, s.start_us, s.start_bound, s.start_state,
        s.start_reason, NULLIF(s.leader_before, -2) AS leader_before,
        s.start_epoch, s.start_node, s.start_boot, s.start_seq, s.start_event, s.refusals,
        CASE WHEN s.deleted = 1 THEN 'deleted'
            WHEN s.closed = 1 AND s.unclean = 1 THEN 'unclean leader'
            WHEN s.closed = 1 THEN 'leader'
            WHEN s.lost_in IS NOT NULL THEN 'unknown' END AS ended_by,
        CASE WHEN s.closed = 1 AND s.deleted = 0 AND s.leader_after >= 0 THEN s.leader_after END AS leader_after,
        CASE WHEN b.ts_ms IS NOT NULL THEN b.bound WHEN s.closed = 1 THEN s.end_bound
            WHEN s.lost_in IS NOT NULL THEN 'not after' END AS end_bound,
        COALESCE(b.ts_ms, s.end_ms, o.begin_ms) AS end_ms,
        COALESCE(b.mono_us, s.end_us, o.begin_us) AS end_us,
        COALESCE(s.end_epoch, o.epoch) AS end_epoch,
        COALESCE(b.node, s.end_node, o.node) AS end_node,
        COALESCE(b.boot, s.end_boot, o.boot) AS end_boot,
        COALESCE(b.seq, s.end_seq, o.first_seq) AS end_seq,
        COALESCE(b.event, s.end_event, o.event) AS end_event,
        CASE WHEN s.closed = 0 OR NOT (s.deleted = 1 OR COALESCE(s.start_state, '') = 'NewPartition') THEN TRUE
            WHEN s.start_epoch <> s.end_epoch OR s.start_node <> s.end_node OR s.start_boot <> s.end_boot
                OR s.start_event <> s.end_event THEN TRUE
            WHEN s.start_event <> 0 THEN FALSE
            WHEN s.deleted = 1 THEN s.end_ms - s.start_ms >= 1000
            ELSE s.refusals = 1 END AS is_window
    FROM leader_spans s
    LEFT JOIN led b
        ON b.cluster = s.cluster AND b.topic = s.topic AND b.partition = s.partition
        AND b.leader_epoch = s.leader_epoch AND s.source = 'kafka' AND s.closed = 1 AND s.deleted = 0
    LEFT JOIN openings o ON o.cluster = s.cluster AND o.epoch = s.lost_in AND s.closed = 0
)
SELECT *,
    CASE WHEN end_ms IS NULL THEN NULL
        WHEN start_node = end_node AND start_boot = end_boot THEN GREATEST(end_us - start_us, 0)
        ELSE GREATEST((end_ms - start_ms) * 1000, 0) END AS duration_us
FROM ended
WHERE is_window
"""
"""The windows, without their causes. `is_window` has the rules for new partitions and for deletions (see above)."""
