"""Planted bugs of the discovered settings, above all of the protocol version."""

from typing import Final

from tests.sim.mutant import bug

SETTINGS: Final = (
    bug(
        "protocol-falls",
        "the protocol version falls when a broker comes back with a lower one",
        "S-02",
        "controllerd/core/settings_book.py",
        "self._protocol = _higher(floor, lowest)",
        "self._protocol = lowest",
    ),
    bug(
        "protocol-of-any-broker",
        "the protocol version is the highest that any broker says",
        "S-03",
        "controllerd/core/settings_book.py",
        "lowest = merged(BY_NAME[PROTOCOL_VERSION], texts)",
        "lowest = max(texts.values(), key=parse_broker_version)",
    ),
    bug(
        "switch-dies-with-its-broker",
        "unclean elections are on as soon as the broker that has them turned off is dead",
        "Z-16",
        "controllerd/core/broker_answers.py",
        "if answer.counts_when_gone}",
        "if False}",
    ),
    bug(
        "default-overrides-own",
        "the dynamic default of all brokers turns on what a broker has turned off by its own",
        "Z-16",
        "controllerd/core/resolved_settings.py",
        "(dynamic and not self.is_held_off)",
        "dynamic",
    ),
    bug(
        "newcomer-is-not-asked",
        "a broker that comes can be elected uncleanly before it has said whether that is allowed",
        "ADR 0034",
        "controllerd/services/brokers.py",
        "for broker in (*diff.new, *diff.bounced)}",
        "for broker in ()}",
    ),
    bug(
        "answers-outlive-their-lives",
        "what a broker said before it was restarted allows unclean elections",
        "ADR 0034",
        "controllerd/core/broker_answers.py",
        "if answered.get(broker, -1) < epoch))",
        "if broker not in self.counting))",
    ),
    bug(
        "unheard-die-forgotten",
        "a broker that dies before it has said whether unclean elections are allowed forbids them no longer",
        "ADR 0034",
        "controllerd/core/broker_answers.py",
        "return self.unanswered(self._lives)",
        "return self.unanswered(self.registered)",
    ),
    bug(
        "brokers-of-a-takeover-are-not-asked",
        "a takeover elects uncleanly by what is on disk, whoever is registered",
        "ADR 0034",
        "handlers/failover.py",
        "    expect_answers(c.context.epochs(), c)\n",
        "",
    ),
    bug(
        "ids-sent-away",
        "metadata of a topic with an id goes out in a version without ids when another topic has none",
        "ZkMetadataCache.updateMetadata",
        "wire/update_metadata.py",
        "not topics or not topics.isdisjoint(body.topic_ids)",
        "topics <= body.topic_ids.keys()",
    ),
    bug(
        "authorizer-ends-no-term",
        "a setting with which nobody must lead is looked at before elections alone",
        "S-05",
        "handlers/cluster_settings.py",
        "    elif now.refusal is not None:\n        await _give_up(now.refusal, c)\n",
        "",
    ),
    bug(
        "authorizer-dies-with-its-broker",
        "a setting with which nobody must lead counts only while its broker is live",
        "S-05",
        "controllerd/core/settings_book.py",
        "refusal(texts_of, gone)",
        "refusal(told)",
    ),
    bug(
        "unknown-is-forbidden",
        "requests to delete topics are dropped while nobody knows whether topics may be deleted",
        "peer 3.9 (delete.topic.enable of its own broker)",
        "controllerd/services/deletions.py",
        "    if DELETE_TOPICS in c.policy.unknown:\n        return\n",
        "",
    ),
)
