"""``-o yaml``: a YAML parser reads the document of the daemon."""

import io
from contextlib import redirect_stdout

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.output import print_value
from cli.settings import CliSettings, OutputFormat

SETTINGS = CliSettings(output=OutputFormat.YAML)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def written(value: object) -> str:
    """The YAML that is printed for the value."""
    out = io.StringIO()
    with redirect_stdout(out):
        print_value(SETTINGS, value)
    return out.getvalue()


@given(VALUES)
def test_a_parser_reads_the_printed_document(value: object) -> None:
    assert yaml.safe_load(written(value)) == msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("word", ["yes", "No", "on", "OFF", "null", "true", "~", "1", "0x10", "12:30", ".inf", "a: b"])
def test_a_string_that_looks_like_another_type_stays_a_string(word: str) -> None:
    assert yaml.safe_load(written({"word": word})) == {"word": word}


def test_a_document_is_in_block_style_in_the_order_of_its_fields() -> None:
    document = {"kind": "PartitionList", "items": [{"topic": "t", "isr": [1, 2], "tags": []}]}

    assert written(document) == "kind: PartitionList\nitems:\n- topic: t\n  isr:\n  - 1\n  - 2\n  tags: []\n"


def test_a_long_sentence_stays_on_its_line() -> None:
    assert written({"detail": "word " * 100 + "end"}).count("\n") == 1
