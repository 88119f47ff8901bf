"""The sources of the facts, and the gaps and damage of the logs.

The numbers of records and their hash chain are checked in stretches of 65,536 numbers, by sums that are equal if every
line follows the one before it. No memory grows with the log, and nothing is sorted. Only the lines of a stretch with
different sums, and the ends of stretches, are compared one by one.
"""

from typing import Final

SOURCES: Final = """
SELECT
    cluster,
    source,
    node,
    boot,
    CAST(SUM(CASE WHEN row = 0 AND kind NOT IN ('newer_schema', 'torn_tail') THEN 1 ELSE 0 END) AS BIGINT) AS records,
    MAX(CASE WHEN kind = 'snapshot_begin' THEN GET_JSON_OBJECT(data, '$.level') END) AS level,
    MIN(NULLIF(ts_ms, 0)) AS first_ms,
    MAX(NULLIF(ts_ms, 0)) AS last_ms
FROM facts
GROUP BY cluster, source, node, boot
"""
"""Torn tails, and facts about whole files, are no records. A file without a record has no time: its facts have the time
0."""


STRETCHES: Final = """
SELECT cluster, node, boot, seq - seq % 65536 AS stretch, MIN(seq) AS first_seq, MAX(seq) AS last_seq,
    COUNT(*) = MAX(seq) - MIN(seq) + 1
        AND SUM(XXHASH64(hash, seq) % 70368744177664 - XXHASH64(prev, seq - 1) % 70368744177664)
            = XXHASH64(MAX_BY(hash, seq), MAX(seq)) % 70368744177664
                - XXHASH64(MIN_BY(prev, seq), MIN(seq) - 1) % 70368744177664 AS is_whole
FROM facts
WHERE source = 'audit' AND row = 0 AND seq IS NOT NULL AND kind NOT IN ('damaged', 'torn_tail')
GROUP BY cluster, node, boot, stretch
"""
"""In a complete stretch every number has one line, and every line contains the hash of the line before. Every hash then
occurs twice, except at the ends. The sums have 46 bits, so one damaged stretch in 2 ** 46 is missed by chance.
`controllerctl audit verify` finds manipulation."""

SEAMS: Final = """
WITH lines AS (
    SELECT f.cluster, f.node, f.boot, s.stretch, f.seq, f.file, f.line, f.hash, f.prev,
        s.is_whole AND f.seq > s.first_seq AS follows
    FROM facts f
    JOIN stretches s
        ON s.cluster = f.cluster AND s.node = f.node AND s.boot = f.boot AND s.stretch = f.seq - f.seq % 65536
    WHERE f.source = 'audit' AND f.row = 0 AND f.kind NOT IN ('damaged', 'torn_tail')
        AND (NOT s.is_whole OR f.seq = s.first_seq OR f.seq = s.last_seq)
),
followed AS (
    SELECT cluster, node, boot, seq, file, line, hash, prev, follows,
        LAG(seq) OVER w AS seq_before, LAG(hash) OVER w AS hash_before, LAG(file) OVER w AS file_before,
        LEAD(seq) OVER w AS seq_after
    FROM lines
    WINDOW w AS (
        PARTITION BY cluster, node, boot, stretch ORDER BY seq NULLS FIRST, file NULLS FIRST, line NULLS FIRST
    )
),
edges AS (
    SELECT * FROM followed
    WHERE seq_before IS NULL OR seq_after IS NULL OR seq <> seq_before + 1 OR prev <> hash_before
),
joined AS (
    SELECT cluster, node, boot, seq, file, line, prev, follows,
        CASE WHEN seq_before IS NULL THEN LAG(seq) OVER w ELSE seq_before END AS seq_before,
        CASE WHEN seq_before IS NULL THEN LAG(hash) OVER w ELSE hash_before END AS hash_before,
        CASE WHEN seq_before IS NULL THEN LAG(file) OVER w ELSE file_before END AS file_before
    FROM edges
    WINDOW w AS (PARTITION BY cluster, node, boot ORDER BY seq NULLS FIRST, file NULLS FIRST, line NULLS FIRST)
)
SELECT cluster, node, boot, seq, file, line, seq_before, file_before,
    seq <> seq_before AND COALESCE(prev <> hash_before, FALSE) AS breaks_chain
FROM joined
WHERE NOT follows AND (seq <> seq_before + 1 OR prev <> hash_before)
"""
"""Lines that do not follow the line before them. Lines of Kafka's own logs have no numbers, so they are left out."""

COPIES: Final = """
SELECT cluster, node, boot, seq, file, line FROM seams WHERE seq = seq_before
"""
"""The positions of records that were read before from another file: counts leave them out."""

MISSING: Final = """
WITH holes AS (
    SELECT cluster, node, boot, seq, seq_before, file, line,
        LAG(seq) OVER w AS island_first, LEAD(seq_before) OVER w AS island_last
    FROM seams
    WHERE seq > seq_before + 1
    WINDOW w AS (PARTITION BY cluster, node, boot ORDER BY seq NULLS FIRST)
),
present AS (
    SELECT cluster, node, boot, seq AS first_seq, COALESCE(island_last, seq) AS last_seq, file, line FROM holes
    UNION ALL
    SELECT cluster, node, boot, seq_before, seq_before, CAST(NULL AS STRING), CAST(NULL AS BIGINT)
    FROM holes WHERE island_first IS NULL
    UNION ALL
    SELECT g.cluster, g.node, g.boot, CAST(GET_JSON_OBJECT(g.data, '$.first_seq') AS BIGINT),
        CAST(GET_JSON_OBJECT(g.data, '$.last_seq') AS BIGINT), CAST(NULL AS STRING), CAST(NULL AS BIGINT)
    FROM facts g
    SEMI JOIN holes h ON h.cluster = g.cluster AND h.node = g.node AND h.boot = g.boot
    WHERE g.kind = 'gap'
),
reached AS (
    SELECT *,
        MAX(last_seq) OVER (
            PARTITION BY cluster, node, boot ORDER BY first_seq NULLS FIRST, last_seq NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached_seq
    FROM present
)
SELECT cluster, node, boot, reached_seq + 1 AS first_seq, first_seq - 1 AS last_seq, file, line
FROM reached
WHERE first_seq > reached_seq + 1
"""
"""Numbers that no line has and no gap explains. Numbers before the first line of a boot do not count as missing."""

QUALITY: Final = """
WITH found AS (
    SELECT g.cluster, g.node, g.boot, 'gap' AS what,
        CAST(GET_JSON_OBJECT(g.data, '$.first_seq') AS BIGINT) AS first_seq,
        CAST(GET_JSON_OBJECT(g.data, '$.last_seq') AS BIGINT) AS last_seq, g.file, g.line,
        CAST(GET_JSON_OBJECT(g.data, '$.lost') AS BIGINT) AS count, g.reason AS detail, 1000 AS at_most
    FROM facts g
    ANTI JOIN copies c
        ON c.cluster = g.cluster AND c.node = g.node AND c.boot = g.boot AND c.seq = g.seq AND c.file = g.file
        AND c.line = g.line
    WHERE g.kind = 'gap'
    UNION ALL
    SELECT cluster, node, boot, 'missing', first_seq, last_seq, file, line, last_seq - first_seq + 1,
        'no line has these numbers, and no gap record explains them', 1000
    FROM missing
    UNION ALL
    SELECT cluster, node, boot, 'duplicate', MIN(seq), MAX(seq), file, MIN(line), COUNT(*),
        'also in ' || COALESCE(file_before, 'another file'), 1000
    FROM seams WHERE seq = seq_before
    GROUP BY cluster, node, boot, file, file_before
    UNION ALL
    SELECT cluster, node, boot, 'chain', seq_before, seq, file, line, 1,
        'the line does not name the hash of the one before it', 1000
    FROM seams WHERE breaks_chain
    UNION ALL
    SELECT cluster, node, boot, 'newer schema', CAST(GET_JSON_OBJECT(data, '$.first_seq') AS BIGINT),
        CAST(GET_JSON_OBJECT(data, '$.last_seq') AS BIGINT), file, line,
        CAST(GET_JSON_OBJECT(data, '$.lines') AS BIGINT), reason, 20
    FROM facts WHERE kind = 'newer_schema'
    UNION ALL
    SELECT cluster, node, boot, REPLACE(kind, '_', ' '), seq, seq, file, line, 1,
        CASE kind WHEN 'unknown_kind' THEN name WHEN 'unknown_line' THEN data ELSE reason END, 20
    FROM facts WHERE kind IN ('damaged', 'torn_tail', 'unknown_kind', 'unknown_line')
        OR (kind = 'clock_skew' AND (took_us < 0 OR took_us >= 1000000))
),
ranked AS (
    SELECT *,
        ROW_NUMBER() OVER (
            PARTITION BY cluster, what
            ORDER BY node NULLS FIRST, boot NULLS FIRST, first_seq NULLS FIRST, file NULLS FIRST, line NULLS FIRST,
                detail NULLS FIRST
        ) AS place
    FROM found
)
SELECT cluster, node, boot, what, first_seq, last_seq, file, line, CAST(count AS BIGINT) AS count, detail
FROM ranked WHERE place <= at_most
UNION ALL
SELECT cluster, CAST(NULL AS INT), CAST(NULL AS STRING), what, MIN(first_seq), MAX(last_seq), CAST(NULL AS STRING),
    CAST(NULL AS BIGINT), CAST(SUM(count) AS BIGINT), CAST(COUNT(*) AS STRING) || ' more like the ones listed'
FROM ranked WHERE place > at_most
GROUP BY cluster, what
"""
"""At most a thousand rows of each kind, and twenty examples of unknown lines; one row has the number of the others."""
