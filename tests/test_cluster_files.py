"""A kept file is read back by an instance of its own cluster only, and one that cannot be used counts as none."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from controllerd.cluster_files import StoredFile, read_stored, write_stored


class Tools(StoredFile):
    """The kept file of these tests."""

    names: list[str]


def read(file: Path, cluster_id: str = "cluster") -> tuple[list[str] | None, list[str]]:
    """The kept names, and the lines of the log."""
    with capture_logs() as lines:
        kept = read_stored(file, Tools, cluster_id, lambda kept: kept.names)
    return kept, [line["event"] for line in lines]


def test_a_kept_file_is_read_back_and_no_other_file_stays_in_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    write_stored(file, Tools("cluster", 1, ["red"]))
    write_stored(file, Tools("cluster", 1, ["blue"]))

    assert read(file) == (["blue"], [])
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_of_another_cluster_is_ignored_whatever_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text('{"cluster_id": "another", "version": 1, "names": 7}')

    assert read(file) == (None, ["ignored stored file of another cluster"])


@pytest.mark.parametrize("spoil", [
    lambda file: file.write_text('{"names": ["red"]}'),
    lambda file: file.write_text('{"cluster_id": "cluster", "version": 2, "names": ["red"]}'),
    lambda file: file.mkdir(),
], ids=["no cluster", "a newer format", "a folder"])  # fmt: skip
def test_a_file_that_cannot_be_used_counts_as_none(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "tools.json")

    assert read(tmp_path / "tools.json") == (None, ["failed to read stored file"])


def test_a_missing_file_is_not_logged(tmp_path: Path) -> None:
    assert read(tmp_path / "tools.json") == (None, [])


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    write_stored(file, Tools("cluster", 1, ["red"]))
    file.with_suffix(".new").mkdir()

    with pytest.raises(IsADirectoryError):
        write_stored(file, Tools("cluster", 1, ["blue"]))

    assert read(file) == (["red"], [])
