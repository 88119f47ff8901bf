"""Logs that whole controllers wrote, to be mutated: of the simulation, with everything that goes wrong in it."""

from functools import cache
from typing import Final

import structlog

from tests.record.logs import Log
from tests.sim.loop import VirtualLoop
from tests.sim.plan import plan_of
from tests.sim.story import Story

SEEDS: Final = range(24)
"""Some seconds in all."""
MORE_SEEDS: Final = range(60)
"""So far is looked for a place where a mutation makes sense."""
_CRITICAL: Final = 50


@cache
def true_log(seed: int) -> Log:
    """The logs of all controllers of a story, in the order of time; callers must not change it."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    try:
        loop = VirtualLoop(seed)
        story = Story(loop, plan_of(seed))
        ending = loop.run(story.run())
    finally:
        structlog.configure(**before)
    assert ending.violations == [], seed
    runs = [*story.world.former, *story.world.instances.values()]
    return sorted((entry for run in runs for entry in run.audit.log), key=lambda entry: entry[0].mono_ns)
