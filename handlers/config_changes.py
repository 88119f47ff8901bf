"""Follows configurations that change at run time. Only brokers are notified of them, so the controller watches them.

Two kinds concern a controller: whether unclean elections are allowed, for a topic or by default for all topics, and the
quotas of users and client ids. When a configuration of brokers changes, the brokers are asked for their settings.
"""

from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.errors import BadZnode
from controllerd.machines.elections import UNCLEAN_CONFIG, is_true
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from controllerd.services.quotas import follow_quotas, load_quotas
from events.elections import ConfigChange, TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable

log = structlog.get_logger(__name__)

_DEFAULTS: Final = "brokers/<default>"
_BROKERS: Final = "brokers/"
_TOPICS: Final = "topics/"
_VALUES: Final = frozenset({"true", "false"})


async def load_configs(c: Controller) -> None:
    """Load the dynamic defaults and the quotas at the start of a term, and count older notifications as handled.

    The configurations that are read include the changes of these notifications.
    """
    c.configs.changes_seen = (await c.store.configs.read_config_changes()).names
    c.configs.topics.set_unclean_by_default(None)
    await _read_defaults(c)
    await load_quotas(c)


async def on_config_change(_event: ConfigChange, c: Controller) -> None:
    """Handle the notifications of changes below ``/config`` that were not handled before.

    Where unclean elections have become allowed, an event is queued that elects leaders.
    """
    read = await c.store.configs.read_config_changes(c.configs.changes_seen)
    for bad in read.broken:
        c.audit.record(AlarmRecord("notification cannot be read", str(bad)))
    changed = set(read.entities.values())
    if _DEFAULTS in changed:
        before = c.configs.topics.unclean_by_default()
        await _read_defaults(c)
        if c.configs.topics.unclean_by_default() and not before:
            log.info("allowed unclean elections by default")
            c.queue.put(UncleanLeaderElectionEnable())
    if any(entity.startswith(_BROKERS) for entity in changed):
        c.configs.ask_brokers()
    await _look_at({entity.removeprefix(_TOPICS) for entity in changed if entity.startswith(_TOPICS)}, c)
    await follow_quotas(changed, c)
    c.configs.changes_seen = read.names  # last, so that after a failure all of these notifications are handled again


async def _look_at(topics: set[str], c: Controller) -> None:
    known = sorted(topics & c.context.topics.keys())
    configs = await c.store.configs.read_topic_configs(known)
    for topic, config in configs.items():
        if isinstance(config, BadZnode):
            c.audit.record(AlarmRecord("topic configuration cannot be read", str(config)))
        elif is_true(config.get(UNCLEAN_CONFIG, "")):
            log.info("allowed unclean elections of topic", topic=topic)
            c.queue.put(TopicUncleanLeaderElectionEnable(topic))
        elif (value := config.get(UNCLEAN_CONFIG)) is not None and not _is_valid(value):
            c.audit.record(AlarmRecord("invalid configuration", f"topic {topic}: {UNCLEAN_CONFIG}={value}"))


async def _read_defaults(c: Controller) -> None:
    """Read the dynamic default of all brokers; a znode that cannot be parsed changes nothing."""
    try:
        value = (await c.store.configs.read_broker_defaults()).get(UNCLEAN_CONFIG)
    except BadZnode as bad:
        quarantine(c, [bad])
        return
    await take_out_of_quarantine(c, "/config/brokers/<default>")
    if value is not None and not _is_valid(value):
        c.audit.record(AlarmRecord("invalid configuration", f"default of all brokers: {UNCLEAN_CONFIG}={value}"))
        value = None  # brokers leave it out as well (DynamicBrokerConfig.removeInvalidConfigs)
    c.configs.topics.set_unclean_by_default(None if value is None else is_true(value))


def _is_valid(value: str) -> bool:
    return value.strip().lower() in _VALUES
