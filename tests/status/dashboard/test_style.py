"""The colours can be read in light and in dark."""

import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import product
from typing import Final

import pytest

from tests.report.test_style import contrast

CSS: Final = files("controllerd.status.dashboard").joinpath("static", "dashboard.css").read_text()
PAIR: Final = re.compile(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)")
LIGHT: Final[Mapping[str, str]] = {name: light for name, light, _ in PAIR.findall(CSS)}
DARK: Final[Mapping[str, str]] = {name: dark for name, _, dark in PAIR.findall(CSS)}
TEXT: Final = ("ink", "muted", "link", "good", "warn", "bad")
BEHIND: Final = ("page", "card", "raised")
OTHERS: Final = (
    *product(("ink", "warn", "link"), ("warn-soft",)),
    *product(("ink", "bad", "muted", "link"), ("bad-soft",)),
    *product(("ink", "link", "muted"), ("busy-soft",)),
    ("card", "ink"),
)
"""Text on other grounds: tiles, notices, the headline, the event in work, what was copied."""


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), [*product(TEXT, BEHIND), *OTHERS])
def test_text_stands_out_from_its_ground(colors: Mapping[str, str], text: str, ground: str) -> None:
    assert contrast(colors[text], colors[ground]) >= 4.5


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("shape", "ground"), [("load", "card"), ("load", "raised"), ("edge", "card"), ("edge", "page")]
)
def test_bars_and_edges_of_fields_stand_out(colors: Mapping[str, str], shape: str, ground: str) -> None:
    assert contrast(colors[shape], colors[ground]) >= 3


def test_every_colour_that_is_used_is_defined() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", CSS)) - {"mono"}

    assert used <= LIGHT.keys()
    assert not re.findall(r"#[0-9a-f]{3,8}\b", PAIR.sub("", CSS))
