"""Partition states as LeaderAndIsr and UpdateMetadata have them: packed by templates, and grouped by topic.

A state is a start, the ISR, the partition epoch, and a rest in which partitions with the same replicas do not differ.
So a template for each combination of ISR and rest packs a state in one call.
"""

import struct
from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeVar

from wire.primitives import Format

Pack = Callable[[int, int, int, int, bytes, int, bytes], bytes]
"""Partition, controller epoch, leader, leader epoch, ISR, partition epoch and rest to the bytes of a state."""

K = TypeVar("K", bound=Hashable)

_MOST_TEMPLATES: Final = 10_000


class Templates(dict[K, tuple[Pack, bytes, bytes]]):
    """Templates by whatever ISR and rest follow from."""

    def __init__(self, encode: Callable[[K], tuple[bytes, bytes]]) -> None:
        """``encode`` gives the ISR and the rest."""
        super().__init__()
        self._encode = encode

    def __missing__(self, key: K) -> tuple[Pack, bytes, bytes]:
        if len(self) >= _MOST_TEMPLATES:
            self.clear()
        isr, rest = self._encode(key)
        template = self[key] = (struct.Struct(f">iiii{len(isr)}si{len(rest)}s").pack, isr, rest)
        return template


class ByTopic:
    """Packed states by topic, topics in the order in which they first came: an array of topics, or of states."""

    def __init__(self, form: Format, *, grouped: bool) -> None:
        """Not ``grouped`` is how old versions have it: each state says its topic."""
        self._form = form
        self._grouped = grouped
        self._runs: dict[str, list[bytes]] = {}
        self._counts: dict[str, int] = {}

    def add(self, topic: str, states: list[bytes]) -> None:
        """States of a topic, after those that came before."""
        name = b"" if self._grouped else self._form.string(topic)
        self._runs.setdefault(topic, []).append(name + name.join(states))
        self._counts[topic] = self._counts.get(topic, 0) + len(states)

    def array(self, head: Callable[[str], bytes]) -> Iterator[bytes]:
        """The array; ``head`` is what stands before the states of a topic, where they are grouped."""
        form = self._form
        if self._grouped:
            yield form.count(len(self._runs))
            for topic, runs in self._runs.items():
                yield b"".join((head(topic), form.count(self._counts[topic]), *runs, form.tags))
        else:
            yield form.count(sum(self._counts.values()))
            for runs in self._runs.values():
                yield from runs
