"""Planted bugs of control requests."""

from typing import Final

from tests.sim.mutant import Edit, Mutant, bug

_GIVES_UP_NOTHING: Final = (
    "            self._note_failure(error)\n"
    "            await asyncio.sleep(self._settings.backoff_s)\n"
    "            return False"
)

WIRE: Final = (
    bug(
        "death-untold",
        "nobody is told of a dead broker that had no replicas",
        "KAFKA-1867, KAFKA-13225",
        "controllerd/services/brokers.py",
        "        await c.outbox.update_metadata(c.context.live_or_shutting_down)\n",
        "        return\n",
    ),
    bug(
        "newcomer-untold",
        "a new broker is not told the metadata of all partitions",
        "KAFKA-831",
        "controllerd/services/brokers.py",
        "    await c.outbox.update_metadata_of(brokers, list(c.context.records()))\n",
        "    await c.outbox.update_metadata_of(brokers, [])\n",
    ),
    bug(
        "no-greeting",
        "the first request of an epoch is LeaderAndIsr",
        "KAFKA-4443",
        "handlers/failover.py",
        "    await c.outbox.update_metadata(c.context.live_or_shutting_down)\n    await c.replicas.startup()\n",
        "    await c.replicas.startup()\n",
    ),
    bug(
        "isr-change-untold",
        "an accepted AlterPartition is not told to the others",
        "F1, I-24",
        "handlers/isr_change.py",
        "    if changed:\n",
        "    if False:\n",
    ),
    bug(
        "refusal-told",
        "a refused AlterPartition makes the instance send UpdateMetadata without partitions to all brokers",
        "R-16, peer 3.9",
        "handlers/isr_change.py",
        "    if changed:\n",
        "    if proposed:\n",
    ),
    bug(
        "newer-epoch-told",
        "a state that is written once more, for a leader that would not take it otherwise, is sent to all brokers",
        "R-16, peer 3.9",
        "handlers/isr_change.py",
        "if tp in changes and isinstance(result, Written)]",
        "if isinstance(result, Written)]",
    ),
    bug(
        "coalescing-loses",
        "of two requests that are merged only the partitions of the newer survive",
        "M5, KAFKA-7537",
        "channel_manager/coalesce.py",
        "partitions={**older.partitions, **newer.partitions},",
        "partitions=newer.partitions,",
    ),
    bug(
        "coalescing-swallows-deletion",
        "the deletion of a topic is merged with the state of the topic that is created anew, and lost",
        "M5: committed offsets of the deleted topic stay",
        "channel_manager/coalesce.py",
        "is_allowed = _has_effect_of_both(older.body, newer.body)",
        "is_allowed = True",
    ),
    bug(
        "removals-die-with-channel",
        "the deletion of a topic that a broker has not confirmed is lost when the broker registers anew",
        "committed offsets of the deleted topic stay",
        "controllerd/services/brokers.py",
        "    await c.outbox.repeat_removals(brokers)\n",
        "",
    ),
    Mutant(
        "fresh-channel-too-early",
        "the next channel of a broker that bounced is opened before other brokers are started",
        "R-13, seed 2358",
        (
            Edit(
                "controllerd/services/brokers.py",
                "    if diff.new:\n",
                "    for broker in diff.bounced:\n        c.channels.add_broker(observed[broker])\n    if diff.new:\n",
            ),
            Edit(
                "controllerd/services/brokers.py",
                "        await on_broker_failure(diff.bounced, c)\n",
                "        for broker in diff.bounced:\n            c.context.remove_broker(broker)\n"
                "        offline = {broker: c.context.partitions_on(broker) for broker in diff.bounced}\n"
                "        await on_replicas_become_offline(offline, c)\n",
            ),
        ),
    ),
    bug(
        "no-retry",
        "a request that fails is given up",
        "M3",
        "channel_manager/sender.py",
        _GIVES_UP_NOTHING,
        _GIVES_UP_NOTHING.replace("return False", "return True"),
    ),
    bug(
        "retry-loses-place",
        "a request that fails goes to the end of the queue",
        "M2, I-10",
        "channel_manager/sender.py",
        _GIVES_UP_NOTHING,
        _GIVES_UP_NOTHING.replace(
            "return False", "self._queue.append(self._under_way[0].request)\n            return True"
        ),
    ),
    bug(
        "queue-reversed",
        "what was queued last is sent first",
        "M2, I-29",
        "channel_manager/broker_queue.py",
        "item = self._items.popleft()",
        "item = self._items.pop()",
    ),
)
