"""What topics are configured for, as the newest picture of ZooKeeper has it."""

from collections.abc import Collection, Mapping

from controllerd.core.policy import Policy
from controllerd.errors import BadZnode
from controllerd.zk import codecs, paths
from controllerd.zk.pictures import Picture

_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"


class PicturedSettings:
    """Settings of topics from a picture; what only stands in the brokers' own files is not known."""

    def __init__(self) -> None:
        self.version = 0
        self.policy = Policy()
        self._picture = Picture({}, {})

    def take(self, picture: Picture) -> None:
        """From now on this picture counts."""
        self._picture = picture
        self.version += 1

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """What ``/config/topics`` overrides for these topics."""
        return {topic: self._config(paths.topic_config(topic)) for topic in topics}

    def unclean_by_default(self) -> bool | None:
        """The cluster's dynamic default; None without one."""
        told = self._config(paths.CONFIG_BROKER_DEFAULTS).get(_UNCLEAN)
        return None if told is None else told == "true"

    async def min_isr_by_default(self) -> int | None:
        """The cluster's dynamic default; None without one."""
        told = self._config(paths.CONFIG_BROKER_DEFAULTS).get(_MIN_ISR, "")
        return int(told) if told.isascii() and told.isdigit() else None

    def _config(self, path: str) -> Mapping[str, str]:
        node = self._picture.nodes.get(path)
        try:
            return codecs.decode_config(path, node.data) if node is not None else {}
        except BadZnode:
            return {}
