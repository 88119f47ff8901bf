"""Changes of leaders and ISRs, elections and churn.

A leadership is compared with the previous one of the same partition, in the order of the records. Repetitions
(snapshots, records that were read twice) are no change. A smaller version of the state znode belongs to another
partition of the same name: the topic was deleted and created again.
"""

from typing import Final

LEADERSHIP_CHANGES: Final = """
WITH followed AS (
    SELECT cluster, topic, partition, epoch, node, boot, seq, row, event, ts_ms, leader, leader_epoch, isr,
        partition_epoch,
        LAG(leader) OVER w AS leader_before,
        LAG(leader_epoch) OVER w AS leader_epoch_before,
        LAG(isr) OVER w AS isr_before,
        LAG(partition_epoch) OVER w AS partition_epoch_before
    FROM facts
    WHERE kind = 'leadership' AND epoch > 0
    WINDOW w AS (
        PARTITION BY cluster, topic, partition
        ORDER BY epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST, seq NULLS FIRST, row NULLS FIRST
    )
)
SELECT * FROM followed
WHERE leader_before IS NOT NULL
    AND COALESCE(partition_epoch >= partition_epoch_before, TRUE)
    AND (leader <> leader_before OR leader_epoch <> leader_epoch_before OR isr <> isr_before)
"""

ISR_CHANGES: Final = """
WITH sized AS (
    SELECT *, CARDINALITY(isr) AS size_after, CARDINALITY(isr_before) AS size_before,
        CARDINALITY(ARRAY_INTERSECT(isr_before, isr)) AS size_common
    FROM leadership_changes
    WHERE isr <> isr_before
)
SELECT s.cluster, s.topic, s.partition, s.ts_ms, s.epoch, s.node, s.boot, s.seq, s.event,
    CASE WHEN s.size_common = s.size_after THEN 'shrink' WHEN s.size_common = s.size_before THEN 'expand'
        ELSE 'replace' END AS change,
    s.isr_before AS before, s.isr AS after, n.name AS event_name
FROM sized s
LEFT JOIN event_times n
    ON n.cluster = s.cluster AND n.node = s.node AND n.boot = s.boot AND n.event = s.event AND n.event <> 0
WHERE s.size_common < s.size_after OR s.size_common < s.size_before
"""
"""Another order of the same brokers is no change."""

ELECTED: Final = """
SELECT f.cluster, f.topic, f.partition, f.node, f.boot, f.event, f.seq, f.ts_ms, f.name AS strategy,
    COALESCE(f.unclean, FALSE) AS unclean
FROM facts f
ANTI JOIN copies c
    ON c.cluster = f.cluster AND c.node = f.node AND c.boot = f.boot AND c.seq = f.seq AND c.file = f.file
    AND c.line = f.line
WHERE f.kind = 'decision'
"""

ELECTIONS: Final = """
WITH by_event AS (
    SELECT cluster, strategy, unclean, node, boot, event, CASE WHEN event = 0 THEN seq ELSE 0 END AS apart,
        COUNT(*) AS partitions, MIN(ts_ms) AS first_ms, MAX(ts_ms) AS last_ms
    FROM elected
    GROUP BY cluster, strategy, unclean, node, boot, event, apart
)
SELECT cluster, strategy, unclean, COUNT(*) AS events, CAST(SUM(partitions) AS BIGINT) AS partitions,
    MIN(first_ms) AS first_ms, MAX(last_ms) AS last_ms
FROM by_event
GROUP BY cluster, strategy, unclean
"""

CHURN: Final = """
WITH counts AS (
    SELECT cluster, topic, partition,
        CASE WHEN leader <> leader_before THEN 1 ELSE 0 END AS leader_changes,
        CASE WHEN leader_epoch > leader_epoch_before THEN 1 ELSE 0 END AS epoch_bumps,
        0 AS shrinks, 0 AS expands, 0 AS elections, 0 AS windows, ts_ms
    FROM leadership_changes
    UNION ALL
    SELECT cluster, topic, partition, 0, 0, CASE WHEN change = 'shrink' THEN 1 ELSE 0 END,
        CASE WHEN change = 'expand' THEN 1 ELSE 0 END, 0, 0, ts_ms
    FROM isr_changes
    UNION ALL
    SELECT cluster, topic, partition, 0, 0, 0, 0, 1, 0, ts_ms FROM elected
    UNION ALL
    SELECT cluster, topic, partition, 0, 0, 0, 0, 0, 1, start_ms FROM windows
)
SELECT cluster, topic, partition, CAST(SUM(leader_changes) AS BIGINT) AS leader_changes,
    CAST(SUM(epoch_bumps) AS BIGINT) AS epoch_bumps, CAST(SUM(shrinks) AS BIGINT) AS shrinks,
    CAST(SUM(expands) AS BIGINT) AS expands, CAST(SUM(elections) AS BIGINT) AS elections,
    CAST(SUM(windows) AS BIGINT) AS windows, MAX(ts_ms) AS last_ms
FROM counts
GROUP BY cluster, topic, partition
"""
"""The loss of a leader and the next election are two changes. A replaced ISR is neither shrink nor expand."""
