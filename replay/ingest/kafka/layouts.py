"""Compile a log4j layout: from a ConversionPattern to the anchored regular expression that reads its lines. Pure.

Supported are ``%d`` with formats and a zone, ``%p``, ``%c``, ``%t``, ``%m``, ``%n``, ``%X{..}`` and other fields, whose
values are ignored, each with a width such as ``%-5p``, and literal text.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from replay.facts.engine import ReplayError
from replay.ingest.kafka.timestamps import DateFormat, date_format

SHIPPED: Final = "[%d] %p %m (%c)%n"
STRIMZI: Final = "%d{ISO8601} %p %m (%c) [%t]%n"
PLAIN: Final = "%d{ISO8601} %p %m (%c)%n"
KNOWN: Final = (SHIPPED, STRIMZI, PLAIN)
"""The layouts that are tried in this order if no pattern is given."""

_WORD: Final = re.compile(
    r"%(?:(?P<percent>%)|(?P<width>[-0]?\d*(?:\.-?\d+)?)(?P<name>[a-zA-Z]+?)(?P<rest>(?:\{[^}]*\})+|(?![a-zA-Z])))"
)
_FIELDS: Final = {
    **dict.fromkeys(("p", "level", "le"), r"(?P<level>[A-Z]+)"),
    **dict.fromkeys(("c", "logger"), r"(?P<logger>[^\s()\[\]]*)"),
    **dict.fromkeys(("m", "msg", "message"), r"(?P<message>.*)"),
    **dict.fromkeys(("t", "thread", "tn"), r".*?"),
    **dict.fromkeys(("X", "x", "mdc", "MDC", "NDC"), r".*?"),
    **dict.fromkeys(("C", "class", "F", "file", "L", "line", "M", "method", "l", "location"), r"\S*"),
    **dict.fromkeys(("r", "relative", "pid", "sn"), r"\d+"),
    **dict.fromkeys(("n", "throwable", "ex", "xEx", "rEx"), ""),
}


class Layout(NamedTuple):
    """The layout of a line: the groups are ``date``, ``message`` and, where the pattern has them, more."""

    text: str
    line: re.Pattern[str]
    head: re.Pattern[str]
    """The line up to the begin of its message: for messages of several lines, or lines that were cut."""
    date: DateFormat


@lru_cache(maxsize=32)
def compile_layout(pattern: str) -> Layout:
    """Return the layout of a ConversionPattern.

    :raises ReplayError: it has no date with a day, no message, or an unknown conversion; the text says which
    """
    date: list[DateFormat] = []
    parts: list[str] = []
    at = 0
    for word in _WORD.finditer(pattern):
        parts += [_literal(pattern[at : word.start()], pattern), _converted(word, pattern, date)]
        at = word.end()
    parts.append(_literal(pattern[at:], pattern))
    body = "".join(parts)
    before, message, _ = body.partition(_FIELDS["m"])
    if not date or not message:
        raise ReplayError(f"log pattern {pattern!r} needs a date (%d) and a message (%m): lines cannot be read without")
    return Layout(pattern, re.compile(body + r"$", re.DOTALL), re.compile(before), date[0])


def _literal(text: str, pattern: str) -> str:
    if "%" in text:
        raise ReplayError(f"log pattern {pattern!r} cannot be read at {text!r}: write a percent sign as %%")
    return re.escape(text)


def _converted(word: re.Match[str], pattern: str, date: list[DateFormat]) -> str:
    """Return the expression of one conversion; a date format is also added to ``date``."""
    if word["percent"]:
        return "%"
    name, options = word["name"], re.findall(r"\{([^}]*)\}", word["rest"])
    if name in {"d", "date"}:
        date.append(date_format(*options[:2]))
        return f"(?P<date>{date[0].expression})"
    field = _FIELDS.get(name)
    if field is None:
        raise ReplayError(
            f"log pattern {pattern!r} has %{name}, which is not known: known are %d %p %c %t %m %n %X{{..}} %r %F %L %M"
        )
    return _padded(field, word["width"]) if field else ""


def _padded(field: str, width: str) -> str:
    """Return the expression of a field with the blanks that its width adds."""
    digits = width.partition(".")[0]
    if not digits:
        return field
    return f"{field} *" if digits.startswith("-") else f" *{field}"


def fitting(lines: list[str]) -> Layout | None:
    """Return the known layout that most of these lines have, or at least begin with; None: no known one."""
    layouts = [compile_layout(pattern) for pattern in KNOWN]
    for expressions in ([layout.line for layout in layouts], [layout.head for layout in layouts]):
        hits = [sum(expression.match(line) is not None for line in lines) for expression in expressions]
        if best := max(hits):
            return layouts[hits.index(best)]
    return None
