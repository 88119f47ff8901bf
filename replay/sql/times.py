"""The waiting and running times of events, and the response times of brokers.

Percentiles are exact, by nearest rank: p95 is the smallest value that at least 95 of 100 values do not exceed. Equal
values are counted first, so that only the different values are sorted.
"""

from typing import Final

EVENT_TIMES: Final = """
SELECT cluster, node, boot, event, CASE WHEN event = 0 THEN epoch END AS term, MIN(name) AS name, MIN(state) AS state,
    MIN(CASE WHEN kind = 'event_begin' THEN queued_us END) AS queued_us,
    MIN(CASE WHEN kind = 'event_end' THEN took_us END) AS took_us,
    MIN(CASE WHEN kind = 'event_end' THEN after END) AS outcome
FROM facts
WHERE kind IN ('event_begin', 'event_end')
GROUP BY cluster, node, boot, event, term
"""
"""Events of Kafka's own logs have no numbers. Those logs show only the events that begin terms, one for each term."""

EVENTS: Final = """
WITH counted AS (
    SELECT cluster, name, state, 'queued' AS what, queued_us AS value, COUNT(*) AS times
    FROM event_times WHERE queued_us IS NOT NULL GROUP BY cluster, name, state, queued_us
    UNION ALL
    SELECT cluster, name, state, 'took', took_us, COUNT(*)
    FROM event_times WHERE took_us IS NOT NULL GROUP BY cluster, name, state, took_us
),
ranked AS (
    SELECT cluster, name, state, what, value,
        100 * SUM(times) OVER (
            PARTITION BY cluster, name, state, what ORDER BY value NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS share,
        SUM(times) OVER (PARTITION BY cluster, name, state, what) AS total
    FROM counted
),
points AS (
    SELECT cluster, name, state,
        MIN(CASE WHEN what = 'queued' AND share >= 50 * total THEN value END) AS queued_p50_us,
        MIN(CASE WHEN what = 'queued' AND share >= 95 * total THEN value END) AS queued_p95_us,
        MIN(CASE WHEN what = 'queued' AND share >= 99 * total THEN value END) AS queued_p99_us,
        MAX(CASE WHEN what = 'queued' THEN value END) AS queued_max_us,
        MIN(CASE WHEN what = 'took' AND share >= 50 * total THEN value END) AS took_p50_us,
        MIN(CASE WHEN what = 'took' AND share >= 95 * total THEN value END) AS took_p95_us,
        MIN(CASE WHEN what = 'took' AND share >= 99 * total THEN value END) AS took_p99_us,
        MAX(CASE WHEN what = 'took' THEN value END) AS took_max_us
    FROM ranked
    GROUP BY cluster, name, state
),
sums AS (
    SELECT cluster, name, state, COUNT(*) AS count, COUNT(CASE WHEN outcome <> 'done' THEN 1 END) AS failed
    FROM event_times
    GROUP BY cluster, name, state
)
SELECT s.cluster, s.name, s.state, s.count, s.failed,
    p.queued_p50_us, p.queued_p95_us, p.queued_p99_us, p.queued_max_us,
    p.took_p50_us, p.took_p95_us, p.took_p99_us, p.took_max_us
FROM sums s
LEFT JOIN points p
    ON p.cluster = s.cluster AND p.name IS NOT DISTINCT FROM s.name AND p.state IS NOT DISTINCT FROM s.state
"""
"""An event without a record of its end counts, and has not failed."""

REQUESTS: Final = """
WITH answers AS (
    SELECT f.cluster, f.broker, f.name AS api, f.took_us, f.error, f.attempts, f.bytes
    FROM facts f
    ANTI JOIN copies c
        ON c.cluster = f.cluster AND c.node = f.node AND c.boot = f.boot AND c.seq = f.seq AND c.file = f.file
        AND c.line = f.line
    WHERE f.kind = 'response'
),
ranked AS (
    SELECT cluster, broker, api, took_us,
        100 * SUM(COUNT(*)) OVER (
            PARTITION BY cluster, broker, api ORDER BY took_us NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS share,
        SUM(COUNT(*)) OVER (PARTITION BY cluster, broker, api) AS total
    FROM answers
    WHERE took_us IS NOT NULL
    GROUP BY cluster, broker, api, took_us
),
points AS (
    SELECT cluster, broker, api,
        MIN(CASE WHEN share >= 50 * total THEN took_us END) AS took_p50_us,
        MIN(CASE WHEN share >= 95 * total THEN took_us END) AS took_p95_us,
        MIN(CASE WHEN share >= 99 * total THEN took_us END) AS took_p99_us,
        MAX(took_us) AS took_max_us
    FROM ranked
    GROUP BY cluster, broker, api
),
sums AS (
    SELECT cluster, broker, api, COUNT(*) AS count, COUNT(CASE WHEN error <> 0 THEN 1 END) AS errors,
        COUNT(CASE WHEN attempts > 1 THEN 1 END) AS retried, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes
    FROM answers
    GROUP BY cluster, broker, api
)
SELECT s.*, p.took_p50_us, p.took_p95_us, p.took_p99_us, p.took_max_us
FROM sums s
LEFT JOIN points p
    ON p.cluster = s.cluster AND p.broker IS NOT DISTINCT FROM s.broker AND p.api IS NOT DISTINCT FROM s.api
"""
