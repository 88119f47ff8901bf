"""Symbols of the traces for values that differ from run to run: epochs, ports, topic ids, our node id."""

import re
from typing import Final

from tests.fakes.world import topic_id_of
from tests.traces.format import Json, Trace

OTHER: Final = 999
"""Node id of the foreign holder of the role."""
_EMBEDDED: Final = re.compile(r"port\(\w+\)'?")
_PORT: Final = re.compile(r"(?<=:)\d+$")
_TOPIC_ID: Final = re.compile(r"tid\((\w+)\)")
_OLDER: Final = re.compile(r"(be\(\d+\).*)-1")
_NODE_FIELDS: Final = frozenset({"controller_id", "brokerid", "id"})
_ZERO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


class Symbols:
    """The symbols of one run of one trace, and the values that they have in it."""

    def __init__(self, trace: Trace, node_id: int, epoch: int, epoch_version: int) -> None:
        """``epoch`` is the value of CE+0, ``epoch_version`` the value of CEV+0."""
        self._epoch = epoch
        self._epoch_version = epoch_version
        self._node_id = node_id
        self._values: dict[str, int | str] = {"CTRL": node_id, "OTHER": OTHER, "ts": "1", "be(old)": 0}
        self._values["tid(0)"] = _ZERO_ID
        self._ports: dict[int, str] = {}
        self._broker_epochs: dict[int, str] = {}
        self._topic_ids: dict[str, str] = {_ZERO_ID: "tid(0)"}
        for relative in (-1, 0, 1):
            self._values[f"CE{relative:+d}"] = epoch + relative
            self._values[f"CEV{relative:+d}"] = epoch_version + relative
        text = str(trace)
        self._registrations = {broker: _registrations(broker, broker in trace.live, text) for broker in trace.brokers}
        for found in _TOPIC_ID.finditer(text):
            if found[1] not in {"0", "new"}:
                self._bind_topic_id(found[0], topic_id_of(found[1]))

    def _bind_topic_id(self, symbol: str, topic_id: str) -> None:
        self._values[symbol] = topic_id
        self._topic_ids[topic_id] = symbol

    def bind_port(self, symbol: str, port: int) -> None:
        """Bind ``port(1)``, ``port(1)'`` or ``port(CTRL)`` to the port of this run."""
        self._values[symbol] = port
        self._ports[port] = symbol

    def bind_registration(self, broker: int, epoch: int) -> None:
        """Bind the next broker epoch of a broker that registered."""
        waiting = self._registrations[broker]
        symbol = waiting.pop(0) if waiting else f"be({broker})#unforeseen"
        self._values[symbol] = epoch
        self._broker_epochs[epoch] = symbol

    def value(self, symbol: str) -> int:
        """The number of a symbol."""
        return int(self._values[symbol])

    def resolve(self, form: Json) -> Json:
        """Replace all symbols by values."""
        if isinstance(form, dict):
            return {key: self.resolve(value) for key, value in form.items()}
        if isinstance(form, list):
            return [self.resolve(value) for value in form]
        if not isinstance(form, str):
            return form
        if form in self._values:
            return self._values[form]
        if (older := _OLDER.fullmatch(form)) is not None:
            return self.value(older[1]) - 1
        return _EMBEDDED.sub(lambda found: str(self._values[found[0]]), form)

    def symbolise(self, form: Json, name: str = "") -> Json:
        """Replace all values by symbols; ``name`` is the field of the value. An unknown value stays."""
        if isinstance(form, dict):
            inner = name if name == "topic_ids" else ""
            return {key: self.symbolise(value, inner or key) for key, value in form.items()}
        if isinstance(form, list | tuple):
            return [self.symbolise(value, name) for value in form]
        if name == "controller_epoch":
            return f"CE{form - self._epoch:+d}"
        if name == "epoch version":
            return f"CEV{form - self._epoch_version:+d}"
        if name == "broker_epoch":
            return self._broker_epochs.get(form, form)
        if name == "port":
            return self._ports.get(form, form)
        if name == "endpoints":
            return _PORT.sub(lambda found: self._ports.get(int(found[0]), found[0]), form)
        if name in {"topic_id", "topic_ids"}:
            return self._topic_id(form)
        if name in _NODE_FIELDS:
            return {self._node_id: "CTRL", OTHER: "OTHER"}.get(form, form)
        return "ts" if name == "timestamp" else form

    def _topic_id(self, topic_id: str) -> str:
        """The symbol of a topic id. An unknown id is one that the controller made; there is at most one in a trace."""
        if topic_id not in self._topic_ids and "tid(new)" not in self._values:
            self._bind_topic_id("tid(new)", topic_id)
        return self._topic_ids.get(topic_id, topic_id)


def _registrations(broker: int, is_live: bool, text: str) -> list[str]:
    """The names of a broker's epochs in the order of its registrations in the trace.

    A broker that is dead at the start was registered before the recording, which may have counted that. A live broker
    may have been registered twice before.
    """
    first, second = f"be({broker})", f"be({broker})#2"
    registers_later = f"op='create', path='/brokers/ids/{broker}'" in text
    if second in text and not (is_live and registers_later):
        return [second]
    return [first, second]
