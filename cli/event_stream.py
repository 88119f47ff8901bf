"""Server-sent events, as the HTML standard describes them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Message(NamedTuple):
    """One event of a stream; ``data`` is empty for one that only sets an id."""

    event: str
    data: str
    id: str


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Every event as soon as its empty line has come; comments, which keep the connection alive, are left out."""
    event, data, last_id = "message", list[str](), ""
    for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if not line:
            if data or last_id:
                yield Message(event, "\n".join(data), last_id)
            event, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                event = value
            case "data":
                data.append(value)
            case "id":
                last_id = value
            case _:
                pass
