"""The sentence at the top: what is wrong and why, or that all is well; and what to do next."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from controllerd.core.counted import counted
from controllerd.explain.answers import OK, Cause, Diagnosis, clock
from controllerd.explain.brokers import diagnose_instance
from controllerd.explain.inputs import ask
from controllerd.pace import Pace
from controllerd.status.dashboard.commands import is_command
from controllerd.status.dashboard.levels import Level
from controllerd.status.dashboard.tiles import knows
from controllerd.status.dashboard.troubles import Trouble, Troubles, other_troubles
from controllerd.status.dashboard.wording import numbered
from controllerd.status.reads.api import ReadApi
from controllerd.status.schema.status import Status

_DETAILS: Final = 8
_DETAILS_OF_FIRST: Final = 4
_STEPS: Final = 6
_LEVELS: Final = {"standby": Level.UNKNOWN, "queue-behind": Level.WARN, "controller-starting": Level.BUSY}
"""Of what concerns this instance as a whole; whatever is not named here is to be acted upon."""


class Step(NamedTuple):
    """Something to do; a command can be copied."""

    text: str
    is_command: bool


class Headline(NamedTuple):
    """The answer to "what is the matter"."""

    level: Level
    sentence: str
    details: tuple[str, ...] = ()
    next: tuple[Step, ...] = ()


async def headline_of(
    reads: ReadApi, troubles: Troubles, status: Status, blocked: Sequence[str], pace: Pace
) -> Headline:
    """Of everything that is known; gives the event loop its turns."""
    inputs = await reads.settings.inputs([])
    instance = Diagnosis("", OK, "")
    diagnose_instance(await pace.run(ask(inputs)), instance)
    if not knows(status):
        return _of_instance(status, instance, inputs.now_ms)
    held_up = [Trouble(_level(each), each.sentence, "", (), tuple(instance.next)) for each in instance.causes]
    of_partitions = await troubles.of_partitions(inputs.snapshot, pace)
    return _put_together([*held_up, *of_partitions, *other_troubles(status, blocked)]) or _all_is_well(status)


def _level(cause: Cause) -> Level:
    return _LEVELS.get(cause.code, Level.BAD)


def _of_instance(status: Status, instance: Diagnosis, now_ms: int) -> Headline:
    """One that does not know the cluster speaks of itself only."""
    worst = max(instance.causes, key=lambda cause: _level(cause).rank, default=None)
    if worst is None:
        return Headline(Level.UNKNOWN, f"This instance is {status.role}", (status.reason,))
    said = worst.sentence
    if worst.code == "standby" and status.holder is not None:
        said = f"This instance stands by: {status.holder} leads since {clock(status.holder.since_ms, now_ms)}"
    others = tuple(cause.sentence for cause in instance.causes if cause is not worst)
    return Headline(_level(worst), _capital(said), others, _steps(instance.next))


def _put_together(troubles: Sequence[Trouble]) -> Headline | None:
    """Those with the cause of the first share its sentence, the others follow; None without any."""
    if not troubles:
        return None
    ranked = sorted(troubles, key=lambda trouble: -trouble.level.rank)
    first = ranked[0]
    shared = [each for each in ranked if first.because and each.because == first.because]
    together = shared or [first]
    others = [each for each in ranked if each not in together]
    mine = [line for trouble in together for line in trouble.details][:_DETAILS_OF_FIRST]
    details = dict.fromkeys([*mine, *(_say([other]) for other in others)])
    steps = dict.fromkeys(step for trouble in [*together, *others] for step in trouble.next)
    return Headline(first.level, _capital(_say(together)), tuple(details)[:_DETAILS], _steps(steps))


def _say(troubles: Sequence[Trouble]) -> str:
    """``3 partitions offline and 12 partitions under-replicated because broker 2 is gone``."""
    first, *others = (trouble.what for trouble in troubles)
    what = " and ".join([first, *(_without_noun(other, first) for other in others)])
    return f"{what} because {troubles[0].because}" if troubles[0].because else what


def _without_noun(what: str, said: str) -> str:
    """``6 under-replicated`` behind ``3 partitions offline``."""
    number, _, rest = what.partition(" ")
    noun, _, condition = rest.partition(" ")
    return f"{number} {condition}" if f" {noun.rstrip('s')}" in said and condition else what


def _all_is_well(status: Status) -> Headline:
    counts = status.counts
    brokers = counted(len(status.brokers), "broker")
    if not counts.partitions:
        return Headline(Level.GOOD, "All is well", (f"{brokers} alive, and no topics yet",))
    of = f"{numbered(counts.partitions, 'partition')} of {numbered(counts.topics, 'topic')} on {brokers}"
    return Headline(Level.GOOD, "All is well", (f"{of}: each has a leader, and every copy is in sync",))


def _steps(steps: Iterable[str]) -> tuple[Step, ...]:
    """Without those that another one says with more words."""
    said = list(steps)
    kept = [step for step in said if not any(other.startswith((f"{step}:", f"{step},", f"{step} (")) for other in said)]
    return tuple(Step(step, is_command(step)) for step in kept[:_STEPS])


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
