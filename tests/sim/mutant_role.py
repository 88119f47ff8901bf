"""Planted bugs of the role, of sessions and of watches."""

from typing import Final

from tests.sim.mutant import bug

ROLE: Final = (
    bug(
        "no-fence",
        "a write does not demand the controller epoch",
        "KAFKA-6082",
        "controllerd/zk/writer.py",
        "return CheckVersion(paths.CONTROLLER_EPOCH, self._epoch_zk_version)",
        "return CheckVersion(paths.CONTROLLER_EPOCH, -1)",
    ),
    bug(
        "fence-adopted",
        "whoever is fenced reads the new epoch and goes on under it",
        "KAFKA-1096",
        "controllerd/zk/writer.py",
        "        check = self._epoch_check()\n        (outcome,) =",
        "        self._epoch_check()\n"
        "        (held,) = await self._zk.read([paths.CONTROLLER_EPOCH])\n"
        "        self._epoch_zk_version = self._epoch_zk_version if held is None else held.version\n"
        "        check = self._epoch_check()\n        (outcome,) =",
    ),
    bug(
        "deposition-unnoticed",
        "whoever was replaced does not look who holds /controller",
        "KAFKA-532",
        "handlers/role.py",
        "if c.is_active and not await c.role.elector.is_ours():",
        "if False:",
    ),
    bug(
        "expiry-keeps-term",
        "an expired session does not end the term",
        "KAFKA-4229",
        "handlers/role.py",
        '    end_term(c, "expired", "the ZooKeeper session expired")\n',
        "",
    ),
    bug(
        "senders-outlive-term",
        "the senders go on after the term has ended",
        "KAFKA-4447",
        "handlers/role.py",
        "    c.channels.shutdown()\n    c.timers.clear()\n",
        "    c.timers.clear()\n",
    ),
    bug(
        "lost-election-believed",
        "an election whose answer was lost counts as won",
        "A16, KAFKA-1382",
        "controllerd/zk/elector.py",
        "if isinstance(outcome, ReplyLost) and not await self._took_effect(operations, data, epoch + 1):",
        "if isinstance(outcome, ReplyLost) and operations is None:",
    ),
    bug(
        "owner-unchecked",
        "after a lost answer the epoch decides who won, not the owner of /controller",
        "A16, KAFKA-1382",
        "controllerd/zk/elector.py",
        "is_ours = self._owns(node) and node is not None and node.data == data",
        "is_ours = True",
    ),
    bug(
        "own-ephemeral-is-foreign",
        "our own /controller counts as somebody else's",
        "KAFKA-1387, KAFKA-992",
        "controllerd/zk/elector.py",
        "if holder.instance == self._contender.instance or takeover:",
        "if takeover:",
    ),
    bug(
        "calls-forgotten",
        "what waits in the queue of whoever resigns is never answered",
        "KAFKA-10193, A10",
        "events/queue.py",
        "            else:\n                queued.preempt()\n",
        "",
    ),
    bug(
        "freeze-unnoticed",
        "a process that slept longer than its session goes on sending",
        "KAFKA-532, I-03",
        "controllerd/daemon/freeze_guard.py",
        "if now - self._seen_at > self._limit_s:",
        "if now < self._seen_at:",
    ),
    bug(
        "freeze-limit-as-asked",
        "the limit of a freeze follows the session time-out that was asked for, not the granted one",
        "I-03, ADR 0011",
        "controllerd/daemon/instance.py",
        "self.guard.set_limit(timeout_s * _SAFE_SHARE)",
        "self.guard.set_limit(self._asked_timeout_s * _SAFE_SHARE)",
    ),
    bug(
        "validation-without-sync",
        "after a freeze a server that lags may say whose the role is",
        "I-03, ADR 0011",
        "controllerd/daemon/instance.py",
        "            await client.zk.sync()  # a server that lags behind could confirm a lost role\n",
        "",
    ),
    bug(
        "broker-pushed-aside",
        "an instance that is to stand by takes the role from a broker",
        "when_broker_holds",
        "controllerd/zk/elector.py",
        "None if self._contender.takes_from_brokers else",
        "None if holder else",
    ),
    bug(
        "broker-left-alone",
        "an instance that is to take the role from a broker stands by",
        "when_broker_holds",
        "controllerd/zk/elector.py",
        "None if self._contender.takes_from_brokers else",
        "None if not holder else",
    ),
    bug(
        "deletion-unheard",
        "that /controller is gone means no more than that it changed",
        "A2, A3",
        "controllerd/zk/watches.py",
        "return Reelect() if fired is Fired.DELETED else ControllerChange()",
        "return ControllerChange()",
    ),
)

WATCHES: Final = (
    bug(
        "brokers-unwatched",
        "the children of /brokers/ids are watched only until they change for the first time",
        "I-36, KAFKA-9478",
        "controllerd/zk/store_brokers.py",
        "children = await self._zk.children(paths.BROKER_IDS, watch=True) or []",
        'first = not getattr(self, "_seen", False)\n'
        "        self._seen = True\n"
        "        children = await self._zk.children(paths.BROKER_IDS, watch=first) or []",
    ),
    bug(
        "topics-unwatched",
        "the children of /brokers/topics are watched only until they change for the first time",
        "I-36, KAFKA-9478",
        "controllerd/zk/store_topics.py",
        "return frozenset(await self._zk.children(paths.BROKER_TOPICS, watch=True) or [])",
        'first = not getattr(self, "_seen", False)\n'
        "        self._seen = True\n"
        "        return frozenset(await self._zk.children(paths.BROKER_TOPICS, watch=first) or [])",
    ),
    bug(
        "partitions-unwatched",
        "topic znodes are read without a watch",
        "I-36, KAFKA-9478",
        "controllerd/zk/store_topics.py",
        "return await self._zk.read_and_watch([paths.topic(name) for name in names])",
        "return await self._zk.read([paths.topic(name) for name in names])",
    ),
    bug(
        "later-change-is-lost-watch",
        "the second look of the comparison with ZooKeeper takes a later change for a lost watch",
        "seeds 474, 701, 2493",
        "handlers/checks.py",
        "    return second.known == first.known and (second.known is not None or second.found == first.found)\n",
        "    return second.path == first.path\n",
    ),
    bug(
        "no-resync",
        "a connection that comes back within the session is as if nothing had happened, though the watches are lost",
        "KAFKA-7987, KAFKA-13461",
        "handlers/role.py",
        "    await on_broker_change(_event, c)\n    for broker in sorted(c.context.brokers):\n",
        "    if c.is_active:\n        return\n"
        "    await on_broker_change(_event, c)\n    for broker in sorted(c.context.brokers):\n",
    ),
    bug(
        "czxid-uncompared",
        "a broker that registered anew between two looks counts as unchanged",
        "KAFKA-7235",
        "controllerd/core/liveness.py",
        "bounced=tuple(sorted(broker for broker, epoch in observed.items() if epoch > known.get(broker, epoch))),",
        "bounced=(),",
    ),
)
