"""What a producer that waits is waiting for, from the statistics of librdkafka."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def describe(statistics: str) -> str:
    """Return in one line: the idempotent producer, each partition with records to send, each broker it needs.

    Args:
        statistics: the newest JSON of librdkafka's ``stats_cb``; empty as long as there is none.
    """
    if not statistics:
        return "no statistics yet"
    told: Mapping[str, Any] = json.loads(statistics)
    return "; ".join(
        [f"producer id {told.get('eos', {}).get('idemp_state', 'none')}", *_waiting(told), *_brokers(told)]
    )


def _waiting(told: Mapping[str, Any]) -> Iterator[str]:
    for topic, partitions in told["topics"].items():
        for number, row in partitions["partitions"].items():
            queued, sending, sent = row["msgq_cnt"], row["xmit_msgq_cnt"], row["msgs_inflight"]
            if queued + sending + sent > 0:
                yield f"{topic}-{number} on broker {row['broker']} has {queued} + {sending} waiting, {sent} sent"


def _brokers(told: Mapping[str, Any]) -> Iterator[str]:
    for row in told["brokers"].values():
        if row["nodeid"] >= 0:
            yield f"broker {row['nodeid']} is {row['state']}, requests under way: {row['waitresp_cnt']}"
