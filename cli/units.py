"""Numbers as people read them in tables; data formats keep them raw."""

from collections.abc import Sequence
from typing import Final

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024.0


def human_duration(seconds: float) -> str:
    """``12 ms``, ``1.5 s``, ``4m12s``, ``2h05m``, ``3d04h``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)}m{int(seconds % _MINUTE):02}s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)}h{int(seconds % _HOUR // _MINUTE):02}m"
    return f"{int(seconds // _DAY)}d{int(seconds % _DAY // _HOUR):02}h"


def human_bytes(number: float) -> str:
    """``512 B``, ``1.5 KiB``, ``20 GiB``."""
    size, unit = float(number), 0
    while size >= _STEP and unit < len(_BINARY) - 1:
        size, unit = size / _STEP, unit + 1
    shown = f"{size:.0f}" if unit == 0 or size >= 10 else f"{size:.1f}"
    return f"{shown} {_BINARY[unit]}"


def human_rate(bytes_per_s: float) -> str:
    """``1.5 MiB/s``."""
    return f"{human_bytes(bytes_per_s)}/s"


def parse_bytes(text: str) -> int:
    """Bytes of ``50MB``, ``1.5GiB`` or ``1000``: powers of 1000 without an i. :raises ValueError: it is none."""
    import re

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B?(?:/s)?", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is no size like 50MB, 1.5GiB or 1000")
    power = " KMGT".index((match[2] or " ").upper())
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def ids(numbers: Sequence[int]) -> str:
    """``1,2,3``, or a dash for none."""
    return ",".join(map(str, numbers)) or "-"


def dash(value: object) -> str:
    """The value, or a dash where it is not known."""
    return "-" if value is None or value == "" else str(value)
