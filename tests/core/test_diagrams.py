"""The committed pictures are those that the tables draw now."""

from diagrams import ARCHITECTURE, BEGIN, generated
from markers import rewritten


def test_the_architecture_page_is_up_to_date() -> None:
    page = ARCHITECTURE.read_text("utf-8")

    assert page == rewritten(page, BEGIN, generated()), "run: make docs"


def test_every_legal_move_is_an_arrow() -> None:
    assert generated().count("-->") == 8 + 14
