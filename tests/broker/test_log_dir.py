"""The owner of a data directory: its broker and cluster."""

from pathlib import Path

import pytest

from broker.log_dir import ForeignData, claim
from controllerd.core.model import BrokerId


def test_a_new_directory_is_claimed_and_found_again(tmp_path: Path) -> None:
    claim(tmp_path / "new", BrokerId(1), "cluster")

    claim(tmp_path / "new", BrokerId(1), "cluster")

    assert "broker.id=1" in (tmp_path / "new" / "meta.properties").read_text()


@pytest.mark.parametrize(("broker", "cluster"), [(2, "cluster"), (1, "other")])
def test_the_data_of_another_broker_or_cluster_is_refused(tmp_path: Path, broker: int, cluster: str) -> None:
    claim(tmp_path, BrokerId(1), "cluster")

    with pytest.raises(ForeignData):
        claim(tmp_path, BrokerId(broker), cluster)
