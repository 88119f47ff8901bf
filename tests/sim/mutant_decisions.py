"""Planted bugs of elections, ISRs and failover."""

from typing import Final

from tests.sim.mutant import Edit, Mutant, bug

_FIRST: Final = (
    "    leader = _first(assignment, online, among=isr)\n"
    "    if leader is not None:\n"
    "        return Elected(leader, tuple(broker"
)

DECISIONS: Final = (
    bug(
        "isr-emptied",
        "the last member leaves the ISR",
        "KAFKA-708",
        "controllerd/core/election.py",
        "return tuple(member for member in isr if member != broker) or isr",
        "return tuple(member for member in isr if member != broker)",
    ),
    bug(
        "epoch-not-bumped",
        "an election leaves the leader epoch as it was",
        "KAFKA-1188, I-12",
        "controllerd/core/election.py",
        "leader_epoch = current.leader_epoch + 1\n    fields = (elected.leader",
        "leader_epoch = current.leader_epoch\n    fields = (elected.leader",
    ),
    bug(
        "shrink-keeps-epoch",
        "taking a broker out of the ISR leaves the leader epoch as it was",
        "KAFKA-1188, I-12",
        "controllerd/core/election.py",
        "fields = (leader, leader_epoch + 1, _without(isr, broker)",
        "fields = (leader, leader_epoch, _without(isr, broker)",
    ),
    bug(
        "dead-elected",
        "whoever is first in the ISR leads, live or not",
        "KAFKA-3670",
        "controllerd/core/election.py",
        _FIRST,
        _FIRST.replace("online", "set(isr)", 1),
    ),
    bug(
        "isr-order",
        "the first of the ISR leads, not the first of the assignment",
        "I-15, D1",
        "controllerd/core/election.py",
        _FIRST,
        _FIRST.replace("assignment, online, among=isr", "isr, online, among=assignment"),
    ),
    bug(
        "unclean-always",
        "who is not in the ISR may lead whatever the configuration says",
        "I-14, Jepsen 2013",
        "controllerd/machines/elections.py",
        "if strategy.allow_unclean:",
        "if topics:",
    ),
    bug(
        "unclean-keeps-isr",
        "after an unclean election all online replicas count as in sync",
        "I-14, D7",
        "controllerd/core/election.py",
        "return Elected(leader, (leader,), recovery_state, unclean=True)",
        "return Elected(leader, tuple(b for b in assignment if b in online), recovery_state, unclean=True)",
    ),
    bug(
        "leaving-joins-isr",
        "a broker in controlled shutdown may come back into an ISR",
        "KAFKA-14140",
        "handlers/isr_change.py",
        "live = c.context.live\n",
        "live = set(c.context.live_or_shutting_down)\n",
    ),
    bug(
        "leaving-unmarked",
        "a broker in controlled shutdown may be elected again",
        "KAFKA-999, KAFKA-3670",
        "controllerd/services/controlled_shutdown.py",
        "    c.context.mark_shutting_down(broker)\n",
        "",
    ),
    bug(
        "old-proposal-taken",
        "AlterPartition compares neither the leader epoch nor the partition epoch",
        "I-32, F2",
        "controllerd/core/alter_partition.py",
        "    if proposal.leader_epoch < current.leader_epoch:\n        return KafkaError.FENCED_LEADER_EPOCH\n",
        "    proposal = proposal._replace(partition_epoch=current.partition_epoch)\n",
    ),
    Mutant(
        "stranger-leads",
        "whoever asks for an ISR becomes the leader by it",
        "peer 3.9 (row 61)",
        (
            Edit(
                "controllerd/core/alter_partition.py",
                "        proposal.leader == current.leader\n        and proposal.leader in proposal.isr",
                "        proposal.leader in proposal.isr",
            ),
            Edit(
                "controllerd/core/alter_partition.py",
                "        current._replace(isr=proposal.isr,",
                "        current._replace(leader=proposal.leader, isr=proposal.isr,",
            ),
        ),
    ),
    bug(
        "repeat-refused",
        "a repeated AlterPartition is judged as a new one",
        "KAFKA-14144",
        "controllerd/core/alter_partition.py",
        "        return AlreadySo(current)\n",
        "        return KafkaError.INVALID_UPDATE_VERSION\n",
    ),
    bug(
        "moved-not-elected",
        "a leader whose state somebody else wrote is left with a partition epoch that is over",
        "KAFKA-2729",
        "handlers/isr_change.py",
        "        [tp for tp in stuck if tp not in hidden], PartitionState.ONLINE, OfflineElection()",
        "        [], PartitionState.ONLINE, OfflineElection()",
    ),
    bug(
        "newest-answer-for-all",
        "a leader of 3.0 gets error codes on which it freezes its ISR",
        "KIP-841, KIP-497",
        "handlers/isr_change.py",
        "release_of_leader(c.context.releases.get(event.broker), event.version)",
        "release_of_leader(c.context.releases.get(event.broker), 3)",
    ),
    bug(
        "equal-epoch-for-old-leaders",
        "a leader of 2.8 gets its ISR back with the partition epoch that it knows",
        "KIP-497",
        "handlers/isr_change.py",
        "if current is not None and needs_newer_partition_epoch(verdict, release):",
        "if False:",
    ),
    bug(
        "lost-epoch-for-old-leaders",
        "a leader of 2.8 that never got its ISR with the newer partition epoch waits for a newer leader epoch",
        "KIP-497, seed 898",
        "handlers/isr_change.py",
        "current is not None and _has_missed_newer_epoch(verdict, current, event, c):",
        "False:",
    ),
    bug(
        "return-elects-nobody",
        "a broker comes back and leaderless partitions stay so",
        "D5, I-34",
        "controllerd/services/brokers.py",
        "    await replace_our_replicas(c)\n    await c.partitions.trigger_online()\n",
        "    await replace_our_replicas(c)\n",
    ),
    bug(
        "our-replica-left-alone",
        "a partition that was started on an instance alone stays on it, without a leader",
        "ADR 0032",
        "controllerd/services/our_replicas.py",
        "if not _isr_names_us(tp, c) or _is_ours_alone(tp, c)}",
        "if not _isr_names_us(tp, c)}",
    ),
    bug(
        "given-replica-left-unled",
        "a partition that was given to a broker in an earlier term, and not elected then, stays without a leader",
        "ADR 0032, seed 386",
        "controllerd/machines/elections.py",
        "(tp.topic in unclean or self._is_given_by_us(tp, state))",
        "tp.topic in unclean",
    ),
    bug(
        "failover-keeps-dead",
        "a failover does not take dead brokers out of ISRs",
        "KAFKA-3143",
        "controllerd/machines/replicas.py",
        "        await self.handle_on(offline, ReplicaState.OFFLINE)\n\n    async def _begin",
        "\n    async def _begin",
    ),
)
