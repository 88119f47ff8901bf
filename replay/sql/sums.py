"""The time lost to windows without a leader: by topic, by cluster, by time.

A window that still lasts counts up to the last record of its cluster. On the axis of time a window begins at the wall
clock's millisecond and lasts for its exact duration, so sums by topic, by bucket and over all agree.
"""

from typing import Final

EXTENTS: Final = """
SELECT cluster, MIN(ts_ms) AS first_ms, MAX(ts_ms) AS last_ms FROM facts GROUP BY cluster
"""

SPANS: Final = """
SELECT w.cluster, w.topic, w.partition, w.start_ms, w.end_ms, w.cause, w.start_ms * 1000 AS start_us,
    w.start_ms * 1000 + COALESCE(w.duration_us, GREATEST((e.last_ms - w.start_ms) * 1000, 0)) AS end_us,
    COALESCE(w.duration_us, GREATEST((e.last_ms - w.start_ms) * 1000, 0)) AS lost_us,
    CASE WHEN w.end_ms IS NULL THEN 1 ELSE 0 END AS lasts,
    COALESCE(w.end_ms, e.last_ms) AS seen_ms
FROM windows w
JOIN extents e ON e.cluster = w.cluster
"""

TOPIC_WINDOWS: Final = """
SELECT cluster, topic, COUNT(*) AS windows, COUNT(DISTINCT partition) AS partitions,
    CAST(SUM(lost_us) AS BIGINT) AS total_us, MAX(lost_us) AS longest_us,
    MIN(start_ms) AS first_ms, MAX(seen_ms) AS last_ms, CAST(SUM(lasts) AS BIGINT) AS open
FROM spans
GROUP BY cluster, topic
"""

CLUSTER_WINDOWS: Final = """
WITH points AS (
    SELECT cluster, at_us, SUM(opens) AS opens, SUM(closes) AS closes
    FROM (
        SELECT cluster, start_us AS at_us, 1 AS opens, 0 AS closes FROM spans
        UNION ALL
        SELECT cluster, end_us, 0, 1 FROM spans
    ) ends
    GROUP BY cluster, at_us
),
swept AS (
    SELECT cluster, at_us, opens, closes,
        SUM(opens - closes) OVER (
            PARTITION BY cluster ORDER BY at_us NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS open_after,
        LEAD(at_us) OVER (PARTITION BY cluster ORDER BY at_us NULLS FIRST) AS next_us
    FROM points
),
unions AS (
    SELECT cluster, SUM(CASE WHEN open_after > 0 THEN next_us - at_us ELSE 0 END) AS any_us,
        MAX(open_after + closes) AS most_at_once
    FROM swept
    GROUP BY cluster
),
sums AS (
    SELECT cluster, SUM(windows) AS windows, SUM(partitions) AS partitions, COUNT(*) AS topics,
        SUM(total_us) AS total_us, MAX(longest_us) AS longest_us, SUM(open) AS open
    FROM topic_windows
    GROUP BY cluster
)
SELECT s.cluster, CAST(s.windows AS BIGINT) AS windows, CAST(s.partitions AS BIGINT) AS partitions, s.topics,
    CAST(s.total_us AS BIGINT) AS total_us, CAST(u.any_us AS BIGINT) AS any_us, s.longest_us,
    CAST(u.most_at_once AS BIGINT) AS most_at_once, CAST(s.open AS BIGINT) AS open
FROM sums s
JOIN unions u ON u.cluster = s.cluster
"""
"""A sweep over all starts and ends; at one and the same moment starts come first."""

HEAT: Final = """
WITH worst AS (
    SELECT cluster, topic FROM topic_windows
    QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster ORDER BY total_us DESC NULLS LAST, topic NULLS FIRST) <= 200
),
reach AS (
    SELECT cluster, MIN(start_us) AS first_us, MAX(end_us) AS last_us FROM spans GROUP BY cluster
),
widths AS (
    SELECT r.cluster, r.first_us, r.last_us, MIN(w.width_us) AS width_us
    FROM reach r
    JOIN (VALUES (1000000), (5000000), (15000000), (60000000), (300000000), (900000000), (3600000000), (10800000000),
        (43200000000), (86400000000), (604800000000), (2592000000000), (31536000000000)) AS w(width_us)
        ON r.last_us - r.first_us <= w.width_us * 100
    GROUP BY r.cluster, r.first_us, r.last_us
),
digits AS (
    SELECT d.n FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS d(n)
),
buckets AS (
    SELECT w.cluster, w.width_us, w.first_us - w.first_us % w.width_us + (tens.n * 10 + ones.n) * w.width_us AS from_us
    FROM widths w CROSS JOIN digits tens CROSS JOIN digits ones
    WHERE ones.n < 10
        AND w.first_us - w.first_us % w.width_us + (tens.n * 10 + ones.n) * w.width_us <= w.last_us
)
SELECT s.cluster, s.topic, CAST(b.from_us / 1000 AS BIGINT) AS bucket_ms, CAST(b.width_us / 1000 AS BIGINT) AS width_ms,
    CAST(SUM(LEAST(s.end_us, b.from_us + b.width_us) - GREATEST(s.start_us, b.from_us)) AS BIGINT) AS lost_us
FROM spans s
JOIN worst t ON t.cluster = s.cluster AND t.topic = s.topic
JOIN buckets b ON b.cluster = s.cluster AND b.from_us < s.end_us AND b.from_us + b.width_us > s.start_us
WHERE s.lost_us > 0
GROUP BY s.cluster, s.topic, b.from_us, b.width_us
"""
"""About a hundred buckets over all windows, of the narrowest usual width that suffices; empty ones are left out."""
