"""When two UpdateMetadata wait for the same slow broker, one that says what both say is enough. PURE.

The union of two bodies is made once and shared, as the bodies were: many brokers may be slow at the same time.
"""

from weakref import WeakKeyDictionary

from controllerd.core.requests import UpdateMetadataBody, UpdateMetadataRequest


class BodyMerger:
    """Merges bodies, and remembers what it merged for as long as both bodies are in use."""

    def __init__(self) -> None:
        self._merged: WeakKeyDictionary[UpdateMetadataBody, WeakKeyDictionary[UpdateMetadataBody, UpdateMetadataBody]]
        self._merged = WeakKeyDictionary()

    def merge(self, older: UpdateMetadataRequest, newer: UpdateMetadataRequest) -> UpdateMetadataRequest:
        """One request with the effect of both in order: all partitions, the newer state of each, the newer head.

        A partition that only the older request removes (leader -2) is still removed.
        """
        merged = self._merged.setdefault(newer.body, WeakKeyDictionary())
        if older.body not in merged:
            merged[older.body] = _union(older.body, newer.body)
        body = merged[older.body]
        return UpdateMetadataRequest(newer.controller_id, newer.controller_epoch, newer.broker_epoch, body)


def _union(older: UpdateMetadataBody, newer: UpdateMetadataBody) -> UpdateMetadataBody:
    return UpdateMetadataBody(
        partitions={**older.partitions, **newer.partitions},
        topic_ids={**older.topic_ids, **newer.topic_ids},
        live_brokers=newer.live_brokers,
    )
