"""Planted bugs of what is written to ZooKeeper, and of what is remembered of it."""

from typing import Final

from tests.sim.mutant import Edit, Mutant, bug

WRITES: Final = (
    bug(
        "election-not-cached",
        "the context keeps the leadership of before an election",
        "KAFKA-9212",
        "controllerd/machines/elections.py",
        "        self._context.set_leaderships(written)\n        self._context.move_partitions(",
        "        self._context.move_partitions(",
    ),
    bug(
        "alter-not-cached",
        "the context keeps the ISR of before an AlterPartition",
        "KAFKA-9212, KAFKA-1382",
        "handlers/isr_change.py",
        "            c.context.set_leadership(tp, leadership)\n            outcomes[tp] = leadership\n",
        "            outcomes[tp] = leadership\n",
    ),
    bug(
        "partition-epoch-stale",
        "what was elected keeps the partition epoch that it was decided on",
        "I-13, KAFKA-9212",
        "controllerd/machines/state_changes.py",
        "updates[tp].at(result.version)",
        "updates[tp]",
    ),
    bug(
        "no-second-try",
        "an election that loses the compare-and-set is given up",
        "KAFKA-1382",
        "controllerd/machines/state_changes.py",
        "                    lost.append(tp)\n",
        '                    self.failed[tp] = "the znode has moved"\n',
    ),
    bug(
        "reply-lost-is-failure",
        "a write whose answer was lost counts as failed",
        "KAFKA-1382, I-38",
        "controllerd/zk/writer.py",
        "        await self._read_back_lost(work, lost, epoch_zk_version)\n",
        "        for index in [index for chunk in lost for index in chunk]:\n"
        '            work.results[index] = WriteFailed("connection lost")\n',
    ),
    Mutant(
        "reply-lost-is-success",
        "a write whose answer was lost counts as done",
        "I-38",
        (
            Edit(
                "controllerd/zk/writer.py",
                "        await self._read_back_lost(work, lost, epoch_zk_version)\n",
                "        for chunk in lost:\n"
                "            for index in chunk:\n"
                '                work.results[index] = Written(getattr(work.of([index])[-1], "version", -1) + 1)\n',
            ),
            Edit(
                "controllerd/zk/writer.py",
                "from controllerd.ports.results import WriteFailed, WriteResult\n",
                "from controllerd.ports.results import WriteFailed, WriteResult, Written\n",
            ),
        ),
    ),
    bug(
        "any-state-version",
        "state znodes are written at whatever version",
        "KAFKA-1382, peer 3.9 (row 59)",
        "controllerd/zk/store_states.py",
        "extras.get(tp) if extras else None), state.partition_epoch)",
        "extras.get(tp) if extras else None), -1)",
    ),
    bug(
        "any-topic-version",
        "topic znodes are written at whatever version",
        "peer 3.9 (row 58b)",
        "controllerd/zk/store_topics.py",
        "codecs.encode_topic(image), image.znode_version)",
        "codecs.encode_topic(image), -1)",
    ),
    bug(
        "new-topic-id",
        "a failover gives topics new ids",
        "KAFKA-12835",
        "controllerd/services/topic_preparation.py",
        "if corrected.topic_id is None and c.context.features.topic_ids:",
        "if c.context.features.topic_ids:",
    ),
    Mutant(
        "producer-ids-remembered",
        "blocks of producer ids continue from memory, and are written without compare-and-set",
        "I-39",
        (
            Edit(
                "handlers/producer_ids.py",
                "        last = await c.store.producer_ids.read_producer_ids()\n",
                "        last = _LAST.get(id(c)) or await c.store.producer_ids.read_producer_ids()\n",
            ),
            Edit(
                "handlers/producer_ids.py",
                "        if isinstance(result, Written):\n",
                "        if isinstance(result, Written):\n"
                "            last = AllocatedProducerIds(block.broker, start, block.block_end, result.version)\n"
                "            _LAST[id(c)] = last\n",
            ),
            Edit("handlers/producer_ids.py", "ATTEMPTS: Final = 20\n", "_LAST = {}\nATTEMPTS: Final = 20\n"),
            Edit(
                "controllerd/zk/store_cluster.py",
                "else SetData(path, data, block.version)",
                "else SetData(path, data, ANY_VERSION)",
            ),
        ),
    ),
    bug(
        "broken-is-missing",
        "a state that cannot be understood counts as missing",
        "peer 3.9 (row 59)",
        "controllerd/zk/store_states.py",
        "                    broken[tp] = error\n",
        "                    missing.add(tp)\n",
    ),
    bug(
        "quarantine-for-ever",
        "nobody looks whether a state in quarantine was mended",
        "peer 3.9 (row 59)",
        "controllerd/services/quarantine.py",
        "        c.timers.put_later(CHECK_EVERY_S, QuarantineCheck())\n",
        "        return\n",
    ),
    bug(
        "latest-timer-counts",
        "of equal events that are put for later the latest counts, so that one that is wanted often never comes",
        "retries that delay each other, QuarantineCheck",
        "controllerd/clock.py",
        "            if pending.when() <= due:\n                return\n            pending.cancel()\n",
        "            pending.cancel()\n",
    ),
    bug(
        "sanitizer-off",
        "replicas that brokers assigned to the controller stay with it",
        "C12, DESIGN 5",
        "controllerd/services/topic_preparation.py",
        "    outcome = sanitize_topic(fresh, load, racks=racks)\n",
        "    outcome = sanitize_topic({}, load, racks=racks)\n",
    ),
)
