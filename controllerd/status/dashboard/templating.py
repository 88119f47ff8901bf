"""The templates of the page, compiled once for the process."""

from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from controllerd.status.dashboard import wording
from controllerd.status.dashboard.commands import command
from controllerd.status.dashboard.picture import EVENTS, KIND_GROUPS
from controllerd.status.feed import HEARTBEAT_S

QUIET_MS: Final = round(2.5 * HEARTBEAT_S * 1000)
"""A stream without any sign of life for so long is dead."""
_FILTERS: Final = {
    "size": wording.size,
    "rate": wording.rate,
    "lasting": wording.lasting,
    "moment": wording.moment,
    "number": wording.number,
    "time_of_day": wording.time_of_day,
}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("controllerd.status.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= _FILTERS
    made.globals |= {"command": command, "kind_groups": KIND_GROUPS, "shown_events": EVENTS, "quiet_ms": QUIET_MS}
    for name in made.list_templates():
        made.get_template(name)  # compiling one takes some milliseconds, which no request is to wait for
    return made


def template(name: str) -> Template:
    """One of the templates."""
    return _environment().get_template(name)
