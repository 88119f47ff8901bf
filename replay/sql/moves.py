"""Reassignments and deletions: from the request to the end, and the reasons of their waits.

A reassignment that another controller finished without a record ends with the first opening snapshot that does not
contain it. An opening snapshot is the one that a controller writes at the beginning of its term.
"""

from typing import Final

MOVED: Final = """
SELECT DISTINCT cluster, topic, partition FROM facts WHERE kind = 'reassignment' AND epoch > 0
"""
"""The partitions that were reassigned."""

MOVE_FACTS: Final = """
SELECT f.cluster, f.topic, f.partition, f.epoch, f.node, f.boot, f.seq, f.row, f.ts_ms, f.mono_us,
    CASE f.kind WHEN 'reassignment' THEN f.after ELSE f.kind END AS step, f.isr, f.replicas, f.adding, f.removing,
    COALESCE(f.event <> 0 AND f.seq BETWEEN p.first_seq AND p.last_seq, FALSE) AS was_read
FROM facts f
JOIN moved m ON m.cluster = f.cluster AND m.topic = f.topic AND m.partition = f.partition
LEFT JOIN snapshots p
    ON p.cluster = f.cluster AND p.node = f.node AND p.boot = f.boot AND p.epoch = f.epoch AND p.event = f.event
WHERE f.epoch > 0 AND f.kind IN ('reassignment', 'assignment', 'leadership')
UNION ALL
SELECT f.cluster, f.topic, m.partition, f.epoch, f.node, f.boot, f.seq, f.row, f.ts_ms, f.mono_us,
    'deleted', f.isr, f.replicas, f.adding, f.removing, FALSE
FROM facts f
JOIN moved m ON m.cluster = f.cluster AND m.topic = f.topic
WHERE f.epoch > 0 AND f.kind = 'topics_forgotten'
"""
"""The facts about these partitions that show a reassignment and its end. ``was_read``: the fact is in an opening
snapshot, so the controller has read it from ZooKeeper."""

MOVE_STEPS: Final = """
WITH running AS (
    SELECT *,
        LAST_VALUE(CASE WHEN step IN ('begun', 'overridden', 'resumed') THEN 1
            WHEN step IN ('cancelled', 'completed', 'deleted') THEN 0
            WHEN step = 'assignment' AND was_read AND CARDINALITY(adding) = 0 AND CARDINALITY(removing) = 0 THEN 0
            END) IGNORE NULLS OVER w AS ran
    FROM move_facts
    WINDOW w AS (
        PARTITION BY cluster, topic, partition
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT *,
    SUM(CASE WHEN step IN ('begun', 'overridden') OR (step = 'resumed' AND COALESCE(ran, 0) = 0) THEN 1 ELSE 0 END)
        OVER (
            PARTITION BY cluster, topic, partition
            ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS number
FROM running
"""
"""Steps, numbered by reassignment from 1; rows behind the end of a reassignment still have its number. ``ran`` is 1 if
a reassignment was in progress before the step."""

MOVES: Final = """
WITH begins AS (
    SELECT cluster, topic, partition, number, epoch, node, boot, seq, row, ts_ms, mono_us, step,
        LEAD(epoch) OVER w AS epoch_after, LEAD(node) OVER w AS node_after, LEAD(boot) OVER w AS boot_after,
        LEAD(seq) OVER w AS seq_after, LEAD(ts_ms) OVER w AS ts_after, LEAD(mono_us) OVER w AS mono_after
    FROM move_steps
    WHERE step IN ('begun', 'overridden') OR (step = 'resumed' AND COALESCE(ran, 0) = 0)
    WINDOW w AS (PARTITION BY cluster, topic, partition ORDER BY number NULLS FIRST)
),
assigned AS (
    SELECT cluster, topic, partition, number, replicas, adding, removing
    FROM move_steps
    WHERE step = 'assignment' AND number > 0
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY cluster, topic, partition, number
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    ) = 1
),
ends AS (
    SELECT cluster, topic, partition, number, epoch, node, boot, seq, ts_ms, mono_us, step, replicas
    FROM move_steps
    WHERE number > 0 AND ran = 1 AND (
        step IN ('cancelled', 'completed', 'deleted')
        OR (step = 'assignment' AND was_read AND CARDINALITY(adding) = 0 AND CARDINALITY(removing) = 0))
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY cluster, topic, partition, number
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    ) = 1
)
SELECT b.cluster, b.topic, b.partition, b.number, b.ts_ms AS begun_ms, b.mono_us AS begun_us, b.node, b.boot,
    COALESCE(e.ts_ms, b.ts_after) AS ended_ms, COALESCE(e.mono_us, b.mono_after) AS ended_us,
    CASE WHEN e.step IS NULL THEN b.node_after ELSE e.node END AS end_node,
    CASE WHEN e.step IS NULL THEN b.boot_after ELSE e.boot END AS end_boot,
    COALESCE(e.epoch, b.epoch_after) AS end_epoch,
    COALESCE(e.seq, b.seq_after) AS end_seq,
    CASE WHEN e.step = 'assignment' AND CARDINALITY(ARRAY_EXCEPT(a.adding, e.replicas)) > 0 THEN 'cancelled'
        WHEN e.step = 'assignment' THEN 'completed'
        WHEN e.step IS NOT NULL THEN e.step
        WHEN b.seq_after IS NOT NULL THEN 'overridden' END AS outcome,
    a.replicas, a.adding, a.removing
FROM begins b
LEFT JOIN assigned a
    ON a.cluster = b.cluster AND a.topic = b.topic AND a.partition = b.partition AND a.number = b.number
LEFT JOIN ends e
    ON e.cluster = b.cluster AND e.topic = b.topic AND e.partition = b.partition AND e.number = b.number
"""
"""One row for each reassignment. One without an end of its own ends where the next one of its partition begins."""

REASSIGNMENTS: Final = """
WITH isrs AS (
    SELECT s.cluster, s.topic, s.partition, s.number, s.epoch, s.node, s.boot, s.seq, s.row, s.ts_ms,
        ARRAY_EXCEPT(m.adding, s.isr) AS absent
    FROM move_steps s
    JOIN moves m
        ON m.cluster = s.cluster AND m.topic = s.topic AND m.partition = s.partition AND m.number = s.number
    WHERE s.step = 'leadership' AND CARDINALITY(m.adding) > 0
        AND (m.end_seq IS NULL OR s.epoch < m.end_epoch OR (s.epoch = m.end_epoch AND s.seq <= m.end_seq))
),
followed AS (
    SELECT *, LAG(absent) OVER w AS absent_before,
        ROW_NUMBER() OVER (
            PARTITION BY cluster, topic, partition, number
            ORDER BY epoch DESC NULLS LAST, node DESC NULLS LAST, boot DESC NULLS LAST, seq DESC NULLS LAST,
                row DESC NULLS LAST
        ) AS from_end
    FROM isrs
    WINDOW w AS (
        PARTITION BY cluster, topic, partition, number
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    )
),
caught AS (
    SELECT cluster, topic, partition, number, ts_ms, COALESCE(absent_before, absent) AS waited_for
    FROM followed
    WHERE CARDINALITY(absent) = 0 AND (absent_before IS NULL OR CARDINALITY(absent_before) > 0)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster, topic, partition, number ORDER BY from_end NULLS FIRST) = 1
),
lasts AS (
    SELECT cluster, topic, partition, number, absent FROM followed WHERE from_end = 1
)
SELECT m.cluster, m.topic, m.partition, m.begun_ms, m.ended_ms,
    CASE WHEN m.ended_ms IS NULL THEN NULL
        WHEN m.node = m.end_node AND m.boot = m.end_boot THEN GREATEST(m.ended_us - m.begun_us, 0)
        ELSE GREATEST((m.ended_ms - m.begun_ms) * 1000, 0) END AS duration_us,
    m.outcome, m.replicas, m.adding, m.removing,
    CASE WHEN CARDINALITY(l.absent) = 0 THEN c.waited_for ELSE COALESCE(l.absent, m.adding) END AS waited_for,
    CASE WHEN CARDINALITY(l.absent) = 0 THEN c.ts_ms END AS caught_up_ms
FROM moves m
LEFT JOIN lasts l
    ON l.cluster = m.cluster AND l.topic = m.topic AND l.partition = m.partition AND l.number = m.number
LEFT JOIN caught c
    ON c.cluster = m.cluster AND c.topic = m.topic AND c.partition = m.partition AND c.number = m.number
"""
"""``absent`` are the added replicas outside the ISR. ``caught`` is the last time at which none was absent any more."""

DELETED_TOPICS: Final = """
SELECT DISTINCT cluster, topic FROM facts WHERE kind = 'deletion' AND epoch > 0
"""
"""The topics whose deletion was requested."""

DELETION_STEPS: Final = """
WITH reported AS (
    SELECT f.cluster, f.topic, f.epoch, f.node, f.boot, f.seq, f.row, f.event, f.ts_ms, f.mono_us, f.source, f.reason,
        CASE f.kind WHEN 'deletion' THEN f.after ELSE 'forgotten' END AS step, n.next_opening
    FROM facts f
    JOIN deleted_topics d ON d.cluster = f.cluster AND d.topic = f.topic
    JOIN next_openings n ON n.cluster = f.cluster AND n.epoch = f.epoch
    WHERE f.epoch > 0 AND f.kind IN ('deletion', 'topics_forgotten')
),
followed AS (
    SELECT *, LAG(step) OVER w AS step_before, LAG(next_opening) OVER w AS opening_before
    FROM reported
    WINDOW w AS (
        PARTITION BY cluster, topic
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    )
)
SELECT *,
    SUM(CASE WHEN step_before IS NULL OR step_before = 'forgotten' OR opening_before < epoch THEN 1 ELSE 0 END) OVER (
        PARTITION BY cluster, topic
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS number
FROM followed
"""
"""Steps, numbered by deletion from 1. Every term queues the unfinished deletions again."""

DELETIONS: Final = """
WITH states AS (
    SELECT *,
        LAST_VALUE(CASE WHEN step = 'halted' THEN 1
            WHEN step IN ('resumed', 'forgotten') THEN 0
            WHEN step = 'started' AND (event <> 0 OR source = 'kafka') THEN 0 END) IGNORE NULLS OVER (
                PARTITION BY cluster, topic, number
                ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS halted,
        LEAD(node) OVER w AS node_after, LEAD(boot) OVER w AS boot_after,
        LEAD(ts_ms) OVER w AS ts_after, LEAD(mono_us) OVER w AS mono_after
    FROM deletion_steps
    WINDOW w AS (
        PARTITION BY cluster, topic, number
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    )
),
timed AS (
    SELECT s.*, o.begin_ms AS lost_ms,
        COALESCE(LAG(s.halted) OVER w, 0) AS halted_before,
        ROW_NUMBER() OVER w AS place,
        CASE WHEN s.node_after = s.node AND s.boot_after = s.boot THEN GREATEST(s.mono_after - s.mono_us, 0)
            WHEN s.ts_after IS NOT NULL THEN GREATEST((s.ts_after - s.ts_ms) * 1000, 0)
            ELSE GREATEST((COALESCE(o.begin_ms, e.last_ms) - s.ts_ms) * 1000, 0) END AS until_next_us
    FROM states s
    JOIN extents e ON e.cluster = s.cluster
    LEFT JOIN openings o ON o.cluster = s.cluster AND o.epoch = s.next_opening AND s.ts_after IS NULL
    WINDOW w AS (
        PARTITION BY s.cluster, s.topic, s.number
        ORDER BY s.epoch NULLS FIRST, s.node NULLS FIRST, s.boot NULLS FIRST, s.seq NULLS FIRST, s.row NULLS FIRST
    )
),
sums AS (
    SELECT cluster, topic, number,
        MAX(CASE WHEN place = 1 THEN ts_ms END) AS asked_ms,
        MAX(CASE WHEN place = 1 THEN mono_us END) AS asked_us,
        MAX(CASE WHEN place = 1 THEN node END) AS asked_node,
        MAX(CASE WHEN place = 1 THEN boot END) AS asked_boot,
        MIN(CASE WHEN step = 'started' THEN ts_ms END) AS started_ms,
        MAX(CASE WHEN step = 'forgotten' THEN ts_ms END) AS forgotten_ms,
        MAX(CASE WHEN step = 'forgotten' THEN mono_us END) AS forgotten_us,
        MAX(CASE WHEN step = 'forgotten' THEN node END) AS forgotten_node,
        MAX(CASE WHEN step = 'forgotten' THEN boot END) AS forgotten_boot,
        MAX(lost_ms) AS lost_ms,
        COUNT(CASE WHEN halted = 1 AND halted_before = 0 THEN 1 END) AS halts,
        CAST(COALESCE(SUM(CASE WHEN halted = 1 THEN until_next_us END), 0) AS BIGINT) AS halted_us,
        COUNT(CASE WHEN step <> 'forgotten' THEN 1 END) AS asked
    FROM timed
    GROUP BY cluster, topic, number
),
reasons AS (
    SELECT cluster, topic, number, ARRAY_JOIN(ARRAY_SORT(ARRAY_AGG(DISTINCT reason)), '; ') AS blocked_by
    FROM deletion_steps
    WHERE step = 'halted' AND reason IS NOT NULL
    GROUP BY cluster, topic, number
)
SELECT s.cluster, s.topic, s.asked_ms, s.started_ms, COALESCE(s.forgotten_ms, s.lost_ms) AS ended_ms,
    CASE WHEN s.forgotten_ms IS NULL AND s.lost_ms IS NULL THEN NULL
        WHEN s.forgotten_node = s.asked_node AND s.forgotten_boot = s.asked_boot
            THEN GREATEST(s.forgotten_us - s.asked_us, 0)
        ELSE GREATEST((COALESCE(s.forgotten_ms, s.lost_ms) - s.asked_ms) * 1000, 0) END AS duration_us,
    s.halts, s.halted_us, r.blocked_by
FROM sums s
LEFT JOIN reasons r ON r.cluster = s.cluster AND r.topic = s.topic AND r.number = s.number
WHERE s.asked > 0
"""
"""A deletion that was halted already when the log was cut off counts as halted up to the last record."""
