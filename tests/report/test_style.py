"""The colours can be read in light and in dark."""

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Final

import pytest

import replay.report.page

CSS: Final = Path(replay.report.page.__file__).with_name("templates").joinpath("report.css").read_text()
PAIR: Final = re.compile(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)")
LIGHT: Final[Mapping[str, str]] = {name: light for name, light, _ in PAIR.findall(CSS)}
DARK: Final[Mapping[str, str]] = {name: dark for name, _, dark in PAIR.findall(CSS)}
TEXT: Final = ("ink", "muted", "link", "good", "warn", "bad")
BEHIND: Final = ("page", "card", "raised")
OTHERS: Final = (
    *(("good", "good-soft"), ("warn", "warn-soft"), ("bad", "bad-soft"), ("ink", "bad-soft"), ("muted", "bad-soft")),
    *(("ink", "term"), ("ink", "term-odd"), ("card", "bad")),
)
"""Text on other grounds: badges, the cause of an incident, terms, numbers of incidents."""


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), [*product(TEXT, BEHIND), *OTHERS])
def test_text_stands_out_from_its_ground(colors: Mapping[str, str], text: str, ground: str) -> None:
    assert contrast(colors[text], colors[ground]) >= 4.5


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_bars_stand_out_from_the_card(colors: Mapping[str, str]) -> None:
    assert contrast(colors["load"], colors["card"]) >= 3


@pytest.mark.parametrize(("colors", "darker"), [(LIGHT, True), (DARK, False)], ids=["light", "dark"])
def test_the_classes_of_the_heat_map_go_one_way(colors: Mapping[str, str], darker: bool) -> None:
    scale = [luminance(colors[f"heat-{step}"]) for step in range(1, 6)]

    assert scale == sorted(scale, reverse=darker)


def test_every_colour_that_is_used_is_defined() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", CSS)) - {"mono"}

    assert used <= LIGHT.keys()
    assert not re.findall(r"#[0-9a-f]{3,8}\b", PAIR.sub("", CSS))
