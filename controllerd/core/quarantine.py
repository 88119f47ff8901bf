"""What of the cluster is left alone, because a znode of it cannot be understood."""

from controllerd.core.context import ControllerContext
from controllerd.core.model import TopicPartition


def is_in_quarantine(context: ControllerContext, topic: str) -> bool:
    """Whether the topic must be left alone, because nobody understands its znode."""
    return f"/brokers/topics/{topic}" in context.quarantine


def is_in_doubt(context: ControllerContext, tp: TopicPartition) -> bool:
    """Whether something of the partition is in quarantine: its state, its folder, or its topic."""
    if not context.quarantine:
        return False
    topic = f"/brokers/topics/{tp.topic}"
    paths = (topic, f"{topic}/partitions/{tp.partition}", tp.state_path)
    return any(path in context.quarantine for path in paths)
