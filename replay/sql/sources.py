"""What was read, as the table ``sources``."""

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
"""A torn tail was never a record, and what is said of a whole file is none. A file in which nothing is written has no
moment: its facts are stamped 0."""
