"""Planted bugs of calls that create topics."""

from typing import Final

from tests.sim.mutant import bug

_CREATION: Final = "handlers/topic_creation.py"
_STORE: Final = "controllerd/zk/store_topics.py"

TOPIC_CALLS: Final = (
    bug(
        "validation-creates",
        "a topic that is only to be validated is created",
        "L10",
        _CREATION,
        "    made = {} if event.validate_only else await _create(allowed, c)\n",
        "    made = await _create(allowed, c)\n",
    ),
    bug(
        "configuration-apart",
        "the configuration of a new topic is written beside it, whether the topic can be created or not",
        "peer 3.9",
        _STORE,
        "            written = await self._writer.write_groups(list(groups.values()))\n",
        "            await self._writer.write([group[0] for group in groups.values()])\n"
        "            written = await self._writer.write_groups([group[1:] for group in groups.values()])\n",
    ),
    bug(
        "judged-by-the-newest-table",
        "the configurations of new topics are judged by the table of 3.9, whatever releases the brokers run",
        "peer 3.9",
        "controllerd/core/topic_creation.py",
        "    judges = facts.judges\n",
        "    judges = {NEWEST: str(NEWEST)}\n",
    ),
    bug(
        "lost-creation-is-another",
        "a topic whose creation was not answered counts as somebody else's",
        "KAFKA-1382, I-38",
        "controllerd/zk/packing.py",
        "    return written(node.version) if node is not None and _is_effect(operation, node) else None\n",
        "    return None\n",
    ),
)
