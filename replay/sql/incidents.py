"""Incidents, and the records around them. A window is a time in which a partition has no leader.

Windows no more than a minute apart are one incident. An open window joins an incident by its start alone, because its
end is unknown and every later window would join it.
"""

from typing import Final

INCIDENT_WINDOWS: Final = """
WITH reached AS (
    SELECT *,
        MAX(CASE WHEN lasts = 1 THEN start_us ELSE end_us END) OVER (
            PARTITION BY cluster ORDER BY start_us NULLS FIRST, topic NULLS FIRST, partition NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_us
    FROM spans
)
SELECT cluster, topic, partition, start_ms, end_ms, cause, start_us, lost_us, lasts,
    CASE WHEN lasts = 1 THEN start_ms ELSE end_ms END AS quiet_ms,
    CAST(SUM(CASE WHEN reach_us IS NULL OR start_us > reach_us + 60000000 THEN 1 ELSE 0 END) OVER (
        PARTITION BY cluster ORDER BY start_us NULLS FIRST, topic NULLS FIRST, partition NULLS FIRST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS INT) AS incident
FROM reached
"""

INCIDENTS: Final = """
WITH topics AS (
    SELECT cluster, incident, topic, COUNT(*) AS windows, COUNT(DISTINCT partition) AS partitions,
        SUM(lost_us) AS total_us, MAX(lost_us) AS longest_us, MIN(start_ms) AS start_ms, MAX(end_ms) AS end_ms,
        MAX(lasts) AS lasts
    FROM incident_windows
    GROUP BY cluster, incident, topic
),
ranked AS (
    SELECT *,
        ROW_NUMBER() OVER (
            PARTITION BY cluster, incident ORDER BY total_us DESC NULLS LAST, topic NULLS FIRST
        ) AS place
    FROM topics
),
firsts AS (
    SELECT cluster, incident, cause FROM incident_windows
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY cluster, incident ORDER BY start_us NULLS FIRST, topic NULLS FIRST, partition NULLS FIRST
    ) = 1
),
sums AS (
    SELECT cluster, incident, MIN(start_ms) AS start_ms,
        CASE WHEN MAX(lasts) = 0 THEN MAX(end_ms) END AS end_ms,
        CAST(SUM(windows) AS BIGINT) AS windows, CAST(SUM(partitions) AS BIGINT) AS partitions, COUNT(*) AS topics,
        CAST(SUM(total_us) AS BIGINT) AS total_us, MAX(longest_us) AS longest_us,
        MAX(CASE WHEN place = 1 THEN topic END) AS worst_topic
    FROM ranked
    GROUP BY cluster, incident
)
SELECT s.*, f.cause
FROM sums s
JOIN firsts f ON f.cluster = s.cluster AND f.incident = s.incident
"""

TIMELINE: Final = """
WITH rare AS (
    SELECT f.cluster, f.ts_ms, f.node, f.boot, f.epoch, f.seq, f.event, f.kind, f.row,
        COALESCE(CASE f.kind
            WHEN 'term' THEN CASE
                WHEN f.name = 'elected' THEN 'became the controller, epoch ' || CAST(f.epoch AS STRING)
                ELSE 'role ' || f.name END || CASE WHEN COALESCE(f.reason, '') = '' THEN '' ELSE ': ' || f.reason END
            WHEN 'session' THEN 'ZooKeeper session ' || f.name
            WHEN 'config' THEN 'configuration in effect'
            WHEN 'brokers' THEN 'broker ' || CAST(f.broker AS STRING) || CASE f.after
                WHEN 'gone' THEN ' is gone' WHEN 'live' THEN ' is live' ELSE ' began a controlled shutdown' END
            WHEN 'alarm' THEN f.name || CASE WHEN COALESCE(f.reason, '') = '' THEN '' ELSE ': ' || f.reason END
            WHEN 'quarantine' THEN CASE
                WHEN f.reason IS NULL THEN 'released ' || f.name ELSE 'quarantined ' || f.name || ': ' || f.reason END
            WHEN 'rejected' THEN 'not understood: ' || f.name || COALESCE(': ' || f.reason, '')
            WHEN 'gap' THEN COALESCE(GET_JSON_OBJECT(f.data, '$.lost'), 'some')
                || CASE WHEN GET_JSON_OBJECT(f.data, '$.lost') = '1' THEN ' record lost' ELSE ' records lost' END
                || COALESCE(': ' || f.reason, '') END, f.kind) AS text
    FROM facts f
    ANTI JOIN snapshots p
        ON p.cluster = f.cluster AND p.node = f.node AND p.boot = f.boot AND p.epoch = f.epoch AND p.event = f.event
        AND f.seq BETWEEN p.first_seq AND p.last_seq
        AND (f.kind = 'brokers' OR (f.kind = 'quarantine' AND f.event = 0))
    WHERE f.kind IN ('term', 'session', 'config', 'brokers', 'alarm', 'quarantine', 'rejected', 'gap')
)
SELECT cluster, ts_ms, node, boot, epoch, seq, event, kind,
    ARRAY_JOIN(ARRAY_SORT(ARRAY_AGG(DISTINCT text)), ', ') AS text
FROM rare
GROUP BY cluster, ts_ms, node, boot, epoch, seq, event, kind
"""
"""One row per record; repetitions in snapshots are left out."""

MOMENTS: Final = """
WITH grouped AS (
    SELECT cluster, epoch, node, boot, event, CASE WHEN event = 0 THEN seq ELSE 0 END AS apart, kind,
        name, COALESCE(unclean, FALSE) AS unclean,
        MIN(ts_ms) AS ts_ms, MIN(seq) AS seq, COUNT(*) AS partitions,
        MIN(topic || '-' || CAST(partition AS STRING)) AS first_one, MIN(reason) AS reason
    FROM facts
    WHERE kind IN ('decision', 'refused')
        OR (kind = 'partition_state' AND after = 'OfflinePartition' AND before <> 'OfflinePartition')
    GROUP BY cluster, epoch, node, boot, event, apart, kind, name, COALESCE(unclean, FALSE)
)
SELECT cluster, ts_ms, node, boot, epoch, seq, kind, 1 AS rank, text FROM timeline
UNION ALL
SELECT cluster, ts_ms, node, boot, epoch, seq, kind, 2 AS rank,
    CASE WHEN partitions = 1 THEN COALESCE(first_one, 'a partition')
        ELSE CAST(partitions AS STRING) || ' partitions' || COALESCE(', first ' || first_one, '') END
    || CASE kind
        WHEN 'decision' THEN ': leader elected, strategy ' || COALESCE(name, 'unknown')
            || CASE WHEN unclean THEN ', unclean' ELSE '' END
        WHEN 'refused' THEN ': ' || COALESCE(name, 'something') || ' refused' || COALESCE(', ' || reason, '')
        ELSE ': offline' END AS text
FROM grouped
UNION ALL
SELECT cluster, ts_ms, node, boot, epoch, seq, kind,
    CASE WHEN COALESCE(after, '') <> 'done' THEN 2 WHEN name = 'AlterPartitionReceived' THEN 4 ELSE 3 END AS rank,
    name || ' ' || COALESCE(after, 'ended') || CASE WHEN took_us IS NULL THEN ''
        ELSE ', took ' || CAST(CAST((took_us - took_us % 1000) / 1000 AS BIGINT) AS STRING) || ' ms' END
    || COALESCE(': ' || reason, '') AS text
FROM facts
WHERE kind = 'event_end' AND NOT (COALESCE(after, '') = 'done' AND name LIKE '%ResponseReceived')
"""
"""The kinds of records in the chain of an incident, with their importance (1: highest). Answers are left out."""

INCIDENT_CHAIN: Final = """
WITH weighed AS (
    SELECT cluster, incident, MIN(start_ms) - 30000 AS from_ms, MAX(quiet_ms) + 5000 AS to_ms,
        MAX(lasts) AS lasting, SUM(lost_us) AS total_us
    FROM incident_windows
    GROUP BY cluster, incident
),
bounds AS (
    SELECT cluster, incident, from_ms, to_ms
    FROM weighed
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY cluster ORDER BY lasting DESC NULLS LAST, total_us DESC NULLS LAST, incident NULLS FIRST
    ) <= 200
),
near AS (
    SELECT m.cluster, b.incident, m.ts_ms, m.node, m.boot, m.epoch, m.seq, m.kind, m.rank, m.text
    FROM moments m
    JOIN bounds b ON b.cluster = m.cluster AND m.ts_ms BETWEEN b.from_ms AND b.to_ms
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY m.cluster, b.incident, m.node, m.boot, m.seq - m.seq % 65536
        ORDER BY m.rank NULLS FIRST, m.ts_ms NULLS FIRST, m.epoch NULLS FIRST, m.seq NULLS FIRST, m.kind NULLS FIRST,
            m.text NULLS FIRST
    ) <= 200
)
SELECT cluster, incident, ts_ms, node, boot, epoch, seq, kind, text
FROM near
QUALIFY ROW_NUMBER() OVER (
    PARTITION BY cluster, incident
    ORDER BY rank NULLS FIRST, ts_ms NULLS FIRST, epoch NULLS FIRST, node NULLS FIRST, boot NULLS FIRST,
        seq NULLS FIRST, kind NULLS FIRST, text NULLS FIRST
) <= 200
"""
"""The 200 worst incidents of each cluster, and the 200 most important moments of each. The moments are first selected
within stretches of the log, so that no sort grows with the log. Incidents are more than a minute apart, so a moment
near one incident cannot be near the next.
"""
