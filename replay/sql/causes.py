"""The causes of windows as text: the name of the event and its subject."""

from typing import Final

CAUSES: Final = """
WITH starts AS (
    SELECT DISTINCT cluster, start_node AS node, start_boot AS boot, start_epoch AS epoch, start_event AS event
    FROM leader_ends WHERE start_event <> 0
),
named AS (
    SELECT f.cluster, f.node, f.boot, f.event, MIN(f.name) AS name
    FROM facts f
    JOIN starts s ON s.cluster = f.cluster AND s.node = f.node AND s.boot = f.boot AND s.event = f.event
    WHERE f.kind = 'event_begin'
    GROUP BY f.cluster, f.node, f.boot, f.event
),
brokers AS (
    SELECT f.cluster, f.node, f.boot, f.event, f.broker,
        MAX(CASE WHEN f.kind = 'offline_dirs' AND f.topic IS NOT NULL THEN 'dirs' END) AS dirs,
        MAX(CASE WHEN f.after = 'gone' THEN 'gone' END) AS gone,
        MAX(CASE WHEN f.after = 'live' THEN 'live' END) AS live,
        MAX(CASE WHEN f.after = 'shutting_down' THEN 'leaves' END) AS leaves
    FROM facts f
    JOIN starts s ON s.cluster = f.cluster AND s.node = f.node AND s.boot = f.boot AND s.event = f.event
    WHERE f.kind IN ('brokers', 'offline_dirs')
    GROUP BY f.cluster, f.node, f.boot, f.event, f.broker
),
grouped AS (
    SELECT cluster, node, boot, event,
        CASE WHEN gone IS NOT NULL AND live IS NOT NULL THEN 'restarted'
            WHEN gone IS NOT NULL THEN 'died'
            WHEN leaves IS NOT NULL THEN 'controlled shutdown'
            ELSE 'log directory failed' END AS what,
        COUNT(*) AS brokers,
        REPLACE(REPLACE(CAST(ARRAY_SORT(ARRAY_AGG(broker)) AS STRING), '[', ''), ']', '') AS ids
    FROM brokers
    WHERE gone IS NOT NULL OR leaves IS NOT NULL OR dirs IS NOT NULL
    GROUP BY cluster, node, boot, event, what
),
said AS (
    SELECT cluster, node, boot, event,
        ARRAY_JOIN(ARRAY_SORT(ARRAY_AGG(
            CASE what WHEN 'controlled shutdown' THEN 'controlled shutdown of '
                WHEN 'log directory failed' THEN 'log directory failed on ' ELSE '' END
            || CASE WHEN brokers = 1 THEN 'broker ' ELSE 'brokers ' END || ids
            || CASE WHEN what IN ('died', 'restarted') THEN ' ' || what ELSE '' END
        )), ', ') AS about
    FROM grouped
    GROUP BY cluster, node, boot, event
)
SELECT s.cluster, s.node, s.boot, s.epoch, s.event, n.name,
    COALESCE(a.about, CASE WHEN p.epoch IS NOT NULL THEN 'found at the start of epoch ' || CAST(p.epoch AS STRING) END)
        AS about
FROM starts s
LEFT JOIN named n ON n.cluster = s.cluster AND n.node = s.node AND n.boot = s.boot AND n.event = s.event
LEFT JOIN said a ON a.cluster = s.cluster AND a.node = s.node AND a.boot = s.boot AND a.event = s.event
LEFT JOIN snapshots p
    ON p.cluster = s.cluster AND p.node = s.node AND p.boot = s.boot AND p.event = s.event AND p.epoch = s.epoch
"""
"""One row for each event that began a window, where events have numbers."""

WINDOWS: Final = """
SELECT w.cluster, w.topic, w.partition, w.start_ms, w.end_ms, w.duration_us, w.start_bound, w.end_bound, w.ended_by,
    COALESCE(
        CASE WHEN w.start_state = 'NewPartition' THEN COALESCE(c.name || ': ', '')
            || CASE WHEN w.refusals = 1 THEN 'created, and no replica could lead' ELSE 'created' END END,
        c.name || COALESCE(': ' || c.about, ''),
        c.about,
        w.start_reason
    ) AS cause,
    w.leader_before, w.leader_after, w.start_epoch, w.start_node, w.start_boot, w.start_seq, w.start_event,
    w.end_epoch, w.end_node, w.end_boot, w.end_seq, w.end_event
FROM leader_ends w
LEFT JOIN causes c
    ON c.cluster = w.cluster AND c.node = w.start_node AND c.boot = w.start_boot AND c.event = w.start_event
    AND c.epoch = w.start_epoch
"""
