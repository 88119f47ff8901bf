"""The colours have enough contrast in the light and in the dark theme."""

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
TEXT: Final = ("ink", "muted", "link", "ok", "warning", "critical")
BEHIND: Final = ("page", "card", "raised")
OTHERS: Final = (
    *product(("ink", "warning", "link"), ("warning-soft",)),
    *product(("ink", "critical", "muted", "link"), ("critical-soft",)),
    *product(("ink", "link", "muted"), ("info-soft",)),
    ("card", "ink"),
)
"""Text on other backgrounds: tiles, notices, the headline, the running event, the copied text."""


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), [*product(TEXT, BEHIND), *OTHERS])
def test_text_has_enough_contrast(colors: Mapping[str, str], text: str, ground: str) -> None:
    assert contrast(colors[text], colors[ground]) >= 4.5


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("shape", "ground"), [("load", "card"), ("load", "raised"), ("edge", "card"), ("edge", "page")]
)
def test_bars_and_edges_of_fields_have_enough_contrast(colors: Mapping[str, str], shape: str, ground: str) -> None:
    assert contrast(colors[shape], colors[ground]) >= 3


def test_every_colour_that_is_used_is_defined() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", CSS)) - {"mono"}

    assert used <= LIGHT.keys()
    assert not re.findall(r"#[0-9a-f]{3,8}\b", PAIR.sub("", CSS))
