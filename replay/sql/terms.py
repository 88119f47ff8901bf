"""The terms of controllers: when and how each term began and ended."""

from typing import Final

TERMS: Final = """
WITH changes AS (
    SELECT cluster, epoch, node, boot, seq, event, ts_ms, name, reason
    FROM facts
    WHERE kind = 'term' AND epoch > 0
        AND name IN ('elected', 'renewed', 'ended', 'resigned', 'fenced', 'expired', 'unavailable')
),
begins AS (
    SELECT * FROM changes
    WHERE name IN ('elected', 'renewed')
    QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster, epoch, node, boot ORDER BY seq NULLS FIRST) = 1
),
ends AS (
    SELECT c.* FROM changes c
    LEFT JOIN begins b ON b.cluster = c.cluster AND b.epoch = c.epoch AND b.node = c.node AND b.boot = c.boot
    WHERE c.seq > COALESCE(b.seq, -1)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY c.cluster, c.epoch, c.node, c.boot ORDER BY c.seq NULLS FIRST) = 1
),
counts AS (
    SELECT f.cluster, f.epoch, f.node, f.boot, COUNT(f.seq) AS records
    FROM facts f
    ANTI JOIN copies c
        ON c.cluster = f.cluster AND c.node = f.node AND c.boot = f.boot AND c.seq = f.seq AND c.file = f.file
        AND c.line = f.line
    WHERE f.epoch > 0 AND f.row = 0 AND f.kind <> 'broker_leader'
    GROUP BY f.cluster, f.epoch, f.node, f.boot
),
ready AS (
    SELECT b.cluster, b.epoch, b.node, b.boot, MIN(f.ts_ms) AS ready_ms
    FROM begins b
    JOIN facts f
        ON f.cluster = b.cluster AND f.node = b.node AND f.boot = b.boot AND f.epoch = b.epoch AND f.event = b.event
    WHERE f.kind = 'event_end' AND f.seq > b.seq
    GROUP BY b.cluster, b.epoch, b.node, b.boot
)
SELECT n.cluster, n.epoch, n.node, n.boot, b.ts_ms AS begin_ms, r.ready_ms, e.ts_ms AS end_ms, b.name AS how_begun,
    e.name AS how_ended, NULLIF(COALESCE(e.reason, b.reason), '') AS reason, n.records
FROM counts n
LEFT JOIN begins b ON b.cluster = n.cluster AND b.epoch = n.epoch AND b.node = n.node AND b.boot = n.boot
LEFT JOIN ends e ON e.cluster = n.cluster AND e.epoch = n.epoch AND e.node = n.node AND e.boot = n.boot
LEFT JOIN ready r ON r.cluster = n.cluster AND r.epoch = n.epoch AND r.node = n.node AND r.boot = n.boot
"""
"""`renewed` ends a term when it names the epoch that has begun already. A begin outside of the log is null."""
