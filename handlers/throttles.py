"""The throttle of reassignments: set by an operator, removed when the reassignments have ended.

The values of the throttle, and the values that they replace, are written to a znode of controllerd before they are set
in any configuration. So whichever controllerd instance leads at the end can restore the values that no other client has
changed since, and touches nothing else.
"""

from collections.abc import Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.throttles import (
    Bounds,
    Configs,
    Throttle,
    ThrottleView,
    entity_names,
    lifted,
    plan_bounds,
    wanted_bounds,
)
from controllerd.errors import BadZnode, CallRefused
from controllerd.ports.results import ConfigRead, Conflict, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from controllerd.services.throttles import GRACE_S, ZNODE, expect_reassignments, is_throttle_over
from events.operator import ThrottleCheck, ThrottleReassignments, ThrottleReply

log = structlog.get_logger(__name__)

RETRY_S: Final = 30.0
"""Seconds until the next try after the throttle could not be removed."""
ATTEMPTS: Final = 5
"""Times that a configuration is found changed between reading and writing it."""

Move = tuple[TopicPartition, ReplicaAssignment, tuple[BrokerId, ...]]


# -- set ---------------------------------------------------------------------------------------------------------------


async def on_throttle_reassignments(event: ThrottleReassignments, c: Controller) -> ThrottleReply:
    """Set the rate on the brokers and name the replicas on the topics, as ``kafka-reassign-partitions`` does.

    :raises CallRefused: another client's throttle is there, or a configuration cannot be parsed or written.
    """
    if event.rate <= 0:
        raise CallRefused(f"a rate of {event.rate} bytes per second: it must be positive")
    wanted = await _wanted(event, c)
    for _ in range(ATTEMPTS):
        if await _set(event, wanted, c):
            log.info("set throttle of reassignments", rate=event.rate, by=event.by, entities=len(wanted))
            return ThrottleReply(*entity_names(wanted))
    raise CallRefused("somebody else keeps changing the configurations of these brokers or topics: ask again")


async def _wanted(event: ThrottleReassignments, c: Controller) -> Configs:
    moves: list[Move] = []
    async for tp, target in c.outbox.slicer.each(event.targets.items()):
        if tp not in c.context:
            raise CallRefused(f"partition {tp} does not exist")
        moves.append((tp, c.context.assignment(tp), target))
    return wanted_bounds(event.rate, moves)


async def _set(event: ThrottleReassignments, wanted: Configs, c: Controller) -> bool:
    """Write the throttle to the znode, then set the configurations.

    Returns false if another client changed a configuration meanwhile, so that the caller has to try again.
    """
    ours = await _remembered(c)
    read = _understood(await c.store.configs.read_configs(wanted))
    found = {entity: each.config for entity, each in read.items()}
    bounds = ours.bounds if ours is not None else {}
    plan = plan_bounds(wanted, found, bounds, override=event.override)
    if plan.refusals:
        first, why = next(iter(plan.refusals.items()))
        more = f" (and {len(plan.refusals) - 1} more)" if len(plan.refusals) > 1 else ""
        raise CallRefused(f"{first}: {why}{more}; take it away, or ask with override, which puts it back at the end")
    before = ours.view.partitions if ours is not None else frozenset[TopicPartition]()
    throttle = Throttle(
        ThrottleView(event.rate, event.by, c.clock.now_ms(), before | event.targets.keys()), plan.bounds
    )
    try:
        await c.store.operators.write_throttle(throttle)
    except BadZnode as bad:
        raise CallRefused(f"the throttle cannot be remembered, so it is not set: {bad}") from bad
    coming = {tp for tp, target in event.targets.items() if c.context.assignment(tp).target != target}
    expect_reassignments(throttle.view, c.context.intents.awaited | coming, c)
    changed = {e: read[e]._replace(config=config) for e, config in plan.configs.items() if config != read[e].config}
    return await _written(changed, c)


async def _remembered(c: Controller) -> Throttle | None:
    try:
        found = await c.store.operators.read_throttle()
    except BadZnode as bad:
        raise CallRefused(f"{bad}: repair or delete that znode, and ask again") from bad
    await take_out_of_quarantine(c, ZNODE)
    return found


def _understood(read: Mapping[str, ConfigRead | BadZnode]) -> dict[str, ConfigRead]:
    understood: dict[str, ConfigRead] = {}
    for entity, config in read.items():
        if isinstance(config, BadZnode):
            raise CallRefused(f"{config}: nothing is throttled before that znode is repaired")
        understood[entity] = config
    return understood


async def _written(configs: Mapping[str, ConfigRead], c: Controller) -> bool:
    results = await c.store.configs.write_configs(configs)
    for entity, result in results.items():
        if not isinstance(result, Written | Conflict):
            raise CallRefused(f"the configuration of {entity} was not written: {result.reason}")
    return all(isinstance(result, Written) for result in results.values())


# -- removal -----------------------------------------------------------------------------------------------------------


async def on_throttle_check(_event: ThrottleCheck, c: Controller) -> None:
    """Remove the throttle when none of the reassignments that it was set for is under way or still expected."""
    view = c.context.intents.throttle
    if view is None:
        return
    if c.clock.now_ms() - view.set_ms >= GRACE_S * 1000:  # a reassignment that has not begun by now is not expected
        c.context.intents.awaited.clear()
    if is_throttle_over(view, c):
        await _lift(c)


async def _lift(c: Controller) -> None:
    """Restore or delete the values that are still ours; a value for which that fails is kept, and tried again later."""
    intents = c.context.intents
    intents.lift_not_before = c.clock.monotonic() + RETRY_S
    try:
        remembered = await c.store.operators.read_throttle()
        if remembered is not None:
            left = await _restore(remembered.bounds, c)
            await c.store.operators.write_throttle(remembered._replace(bounds=left) if left else None)
            if left:
                return
    except BadZnode as bad:
        quarantine(c, [bad])
        return
    intents.throttle, intents.lift_not_before = None, 0.0
    log.info("removed throttle of reassignments")


async def _restore(bounds: Bounds, c: Controller) -> Bounds:
    """Restore or delete these values; returns the values for which that failed."""
    left = dict(bounds)
    for _ in range(ATTEMPTS):
        read = await c.store.configs.read_configs(left)
        fresh: dict[str, ConfigRead] = {}
        for entity, found in read.items():
            if isinstance(found, BadZnode):
                c.audit.record(AlarmRecord("throttle cannot be taken away", str(found)))
                continue
            config = lifted(found.config, left[entity])
            if config == found.config:
                del left[entity]  # another client removed it, or the topic is gone
            else:
                fresh[entity] = found._replace(config=config)
        results = await c.store.configs.write_configs(fresh)
        for entity, result in results.items():
            if isinstance(result, Written):
                del left[entity]
        if not any(isinstance(result, Conflict) for result in results.values()):
            break
    for entity in left:
        log.error("could not remove throttle of reassignments", entity=entity, again_in_s=RETRY_S)
    return left
