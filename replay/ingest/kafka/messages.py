"""Parse one message of Kafka's logs, by its logger, its prefix and its first word. Pure."""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from replay.ingest.kafka import controller_log, state_change
from replay.ingest.kafka.line_rules import Body, Table, first_word, joined
from replay.ingest.kafka.scala_values import Fields

MessageKind = Literal["facts", "known", "other", "unknown"]
"""``known``: understood, without a fact; ``other``: of a logger that the replay does not read."""

_PREFIX: Final = re.compile(
    r"\[(?:(?P<role>Controller|Broker) id=(?P<id>\d+)(?: epoch=(?P<epoch>\d+))?|"
    r"(?:\w+ controllerId=|Topic Deletion Manager |Channel manager on controller )(?P<controller>\d+))\]:? "
)
_OURS: Final = ("state.change.logger", "kafka.controller.")
_SHORT: Final = {
    *("logger", "change.logger", "KafkaController", "TopicDeletionManager", "ControllerChannelManager"),
    *("RequestSendThread", "ControllerBrokerRequestBatch", "ControllerEventManager$ControllerEventThread"),
    *("ZkPartitionStateMachine", "ZkReplicaStateMachine", "PartitionStateMachine", "ReplicaStateMachine"),
}
"""The names of these loggers as the layouts ``%c{1}`` and ``%c{2}`` print them."""
_CONTROLLER: Final = joined(state_change.CONTROLLER, controller_log.TABLE)
_NAMED_EPOCH: Final = re.compile(r"controller (?:\d+ )?epoch (\d+)")


class ParsedMessage(NamedTuple):
    """The content of a message."""

    verdict: MessageKind
    node: int = 0
    is_broker: bool = False
    epoch: int = 0
    """Epoch of the controller that wrote it; 0: not in the message, or written by a broker."""
    newest_epoch: int = 0
    """The newest controller epoch that has begun by this message; 0: none."""
    rows: Sequence[Fields] = ()


_OTHER: Final = ParsedMessage("other")
_UNKNOWN: Final = ParsedMessage("unknown")


def is_ours(logger: str | None) -> bool:
    """Return whether a logger is of the controller or of state changes. A logger that the layout leaves out counts.

    KRaft's logger, ``org.apache.kafka.controller``, shares ``controller.log`` in 3.x and does not count.
    """
    if logger is None or logger.startswith(_OURS):
        return True
    return logger in _SHORT or logger.removeprefix("controller.") in _SHORT


def read_message(message: str, logger: str | None = None, cause: str | None = None) -> ParsedMessage:
    """Parse a message; ``cause`` is the first line of the stack trace behind it."""
    if not is_ours(logger):
        return _OTHER
    prefix = _PREFIX.match(message)
    if prefix is None:
        return _OTHER if logger is None else _UNKNOWN
    role, number, epoch, controller = prefix.groups()
    text = message[prefix.end() :]
    if role == "Broker":
        return _of_broker(Body(text, int(number), 0, cause))
    return _of_controller(Body(text, int(number or controller), int(epoch or 0), cause))


def _of_broker(body: Body) -> ParsedMessage:
    named = _NAMED_EPOCH.search(body.text[:200]) if body.text.startswith(("Add ", "Stopped ", "Ignoring ")) else None
    verdict, rows = _looked_up(state_change.BROKER, body)
    return ParsedMessage(verdict, body.node, True, 0, int(named[1]) if named else 0, rows)


def _of_controller(body: Body) -> ParsedMessage:
    verdict, rows = _looked_up(_CONTROLLER, body)
    epoch = body.epoch or next((number for row in rows if isinstance(number := row.get("epoch"), int)), 0)
    return ParsedMessage(verdict, body.node, False, epoch, epoch, rows)


def _looked_up(table: Table, body: Body) -> tuple[MessageKind, Sequence[Fields]]:
    text = body.text
    for rule in table.get(first_word(text), ()):
        if not text.startswith(rule.start):
            continue
        if rule.pattern is None or rule.build is None:
            return "known", ()
        match = rule.pattern.match(text)
        if match is not None:
            rows = tuple(rule.build(match, body))
            return ("facts" if rows else "known"), rows
    return "unknown", ()
