"""The owner of a data directory. A broker that finds the data of another cluster or broker there does not start."""

from pathlib import Path
from typing import Final

from controllerd.core.model import BrokerId
from controllerd.errors import ControllerdError

_FILE: Final = "meta.properties"


class ForeignData(ControllerdError):
    """The data directory belongs to another broker or another cluster."""


def claim(directory: Path, broker: BrokerId, cluster_id: str) -> None:
    """Write ``meta.properties`` (version 0) as a stock broker does, or check the file that exists.

    :raises ForeignData: it names another broker or cluster. :raises OSError: it cannot be read or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / _FILE
    ours = {"version": "0", "broker.id": str(broker), "cluster.id": cluster_id}
    if not file.exists():
        file.write_text("".join(f"{key}={value}\n" for key, value in ours.items()), encoding="utf-8")
        return
    found = dict(line.partition("=")[::2] for line in file.read_text(encoding="utf-8").splitlines() if "=" in line)
    for key, value in ours.items():
        if found.get(key) != value:
            raise ForeignData(f"{file} has {key}={found.get(key)}, but this broker has {key}={value}")
