"""Planted bugs of reassignments, deletions, elections by request, and pending replica deletions."""

from typing import Final

from tests.sim.mutant import Edit, Mutant, bug

_PHASES: Final = "controllerd/machines/reassignment/phases.py"
_MOVES: Final = "controllerd/machines/reassignment/reassigner.py"
_REQUESTS: Final = "handlers/reassignments.py"
_DELETIONS: Final = "handlers/topic_deletion.py"
_HANDS_OVER: Final = (
    "        led = await self._lead_from_targets(current)\n"
    "        current, held = await self._split(current, before, "
    "lambda each: not self._is_in_hands_of_target(each, led))\n"
)
_STOPS_OLD: Final = "        await self.stop(removing)\n"

REASSIGNMENTS: Final = (
    Mutant(
        "goes-before-election",
        "the old replicas go before somebody of the target leads",
        "controller.md 7.2 (B4 before B3)",
        (
            Edit(_PHASES, _HANDS_OVER, ""),
            Edit(_PHASES, _STOPS_OLD, _STOPS_OLD + _HANDS_OVER),
        ),
    ),
    bug(
        "completes-too-early",
        "a reassignment completes as soon as one of the target is in sync",
        "I-16",
        "controllerd/core/reassignment.py",
        "return set(assignment.target) <= set(isr)",
        "return not set(assignment.target).isdisjoint(isr)",
    ),
    bug(
        "unclean-leader-completes-nothing",
        "nobody looks at the reassignment of a partition whose target leads uncleanly",
        "peer 3.9 (PartitionReassignmentIsrChange), Q-16",
        "handlers/dispatch.py",
        "    expect_completion(c.partitions.take_unclean(), c)\n",
        "",
    ),
    bug(
        "entry-goes-first",
        "entries leave /admin/reassign_partitions when they are read",
        "KAFKA-9478, I-16",
        "controllerd/services/reassignments.py",
        "    answers = await c.reassigner.run(wanted)\n    failed = ",
        "    await c.reassigner.requests.overrule(wanted.keys())\n"
        "    answers = await c.reassigner.run(wanted)\n    failed = ",
    ),
    bug(
        "entry-stays",
        "entries stay in /admin/reassign_partitions when they are done",
        "KAFKA-9478",
        _PHASES,
        "            await self._requests.finish({record.tp: record.assignment.replicas for record in over})\n",
        "            pass\n",
    ),
    bug(
        "assignment-from-memory",
        "a topic znode is written from memory, whatever it says by now",
        "peer 3.9 (row 58b), I-17",
        "controllerd/machines/reassignment/assignment_writes.py",
        "assignments={**image.assignments, **by_topic[name]})",
        "assignments={n: r.assignment for n, r in self._deps.context.topics[name].partitions.items()} "
        "| by_topic[name])",
    ),
    Mutant(
        "isr-kept",
        "replicas that go are deleted without leaving the ISR before",
        "I-20",
        (
            Edit(
                _PHASES,
                "        else:\n            await self._deps.replicas.handle_on(gone, ReplicaState.OFFLINE)\n",
                "        for broker, partitions in gone.items():\n"
                "            records = [self._deps.context.record(tp) for tp in partitions]\n"
                "            self._deps.context.move_replicas(broker, records, ReplicaState.OFFLINE)\n",
            ),
            Edit(_PHASES, "slicer.each(offline) if not _is_in_isr(record_of(tp), (broker,))]", "slicer.each(offline)]"),
        ),
    ),
    bug(
        "cancel-stops-nobody",
        "a cancellation leaves the replicas alone that were being added",
        "G6",
        _MOVES,
        "gone = await by_broker((move.record.tp, move.dropped) async for move in self._deps.slicer.each(moves))\n",
        "gone = await by_broker((move.record.tp, ()) async for move in self._deps.slicer.each(moves))\n",
    ),
    bug(
        "growth-unheard",
        "an accepted AlterPartition completes no reassignment",
        "controller.md 7.3",
        "handlers/isr_change.py",
        "    expect_completion((tp for tp, outcome in outcomes.items() if isinstance(outcome, LeaderAndIsr)), c)\n",
        "",
    ),
    bug(
        "moves-end-with-term",
        "a new controller does not go on with what is under way",
        "KAFKA-4948, controller.md 7.3",
        "controllerd/services/reassignments.py",
        "    await c.reassigner.resume(sorted(c.context.being_reassigned - served))\n",
        "",
    ),
    bug(
        "move-keeps-epoch",
        "a reassignment leaves the leader epoch as it was",
        "I-12",
        "controllerd/core/election.py",
        "return current._replace(leader_epoch=current.leader_epoch + 1, controller_epoch=controller_epoch)",
        "return current._replace(controller_epoch=controller_epoch)",
    ),
)

DELETIONS: Final = (
    bug(
        "waiting-is-hidden",
        "a topic whose deletion waits for a reassignment is no longer served",
        "peer 3.9 (elections ask whether a topic is queued)",
        "controllerd/core/deletion_waits.py",
        "    return {topic for topic in facts.deletions.queued if is_hidden(facts, topic)}\n",
        "    return set(facts.deletions.queued)\n",
    ),
    bug(
        "marker-first",
        "the marker goes before the topic",
        "I-22, KAFKA-6650",
        "controllerd/zk/store_topics.py",
        "        results = await self._delete_subtrees(names)\n        for path_of",
        "        await self._delete_each({name: paths.delete_topic(name) for name in names})\n"
        "        results = await self._delete_subtrees(names)\n        for path_of",
    ),
    bug(
        "refusal-is-success",
        "a broker that could not delete a replica counts as having deleted it",
        "H13, I-22",
        "handlers/responses.py",
        "reason = event.error if error is KafkaError.NONE else error",
        "reason = event.error",
    ),
    bug(
        "deletions-end-with-term",
        "a new controller does not look for deletions that were asked for",
        "A11, H3",
        "controllerd/services/deletions.py",
        "    c.deletions.queue(sorted(_not_waiting(asked & c.context.topics.keys(), c)))\n    unknown",
        "    unknown",
    ),
    bug(
        "return-deletes-nothing",
        "a broker comes back and the deletions that waited for it go on waiting",
        "H2",
        "controllerd/services/brokers.py",
        "    await c.deletions.resume_for(",
        "    await c.deletions.resume_for(() and ",
    ),
    bug(
        "end-untold",
        "nobody is told that a topic goes",
        "H2, I-09",
        "controllerd/machines/deletions.py",
        "        await self._outbox.update_metadata_of(self._context.live_or_shutting_down, records)\n",
        "",
    ),
    bug(
        "debt-unwritten",
        "nobody writes down what absent brokers must delete",
        "KAFKA-10548",
        "controllerd/machines/pending_deletions.py",
        "            if not more.items() <= before.items():\n",
        "            if not more:\n",
    ),
    bug(
        "debt-unpaid",
        "a broker comes back and nobody tells it what it owes",
        "KAFKA-10548",
        "controllerd/services/brokers.py",
        "    await send_pending_deletions(started, c)\n",
        "",
    ),
)

ELECTIONS: Final = (
    bug(
        "wish-stays",
        "the request for preferred elections stays when it was served",
        "KAFKA-6146",
        "handlers/elections.py",
        "        if await c.store.admin.delete_preferred_election(request.version):\n",
        "        if request is not None:\n",
    ),
    bug(
        "notices-stay",
        "notifications of log directories stay",
        "K3",
        "handlers/brokers.py",
        "    await c.store.notifications.delete_log_dir_notifications(notes.names)\n",
        "",
    ),
)
