"""The expansion of a seed: the options of a cluster, and a list of timed actions that can be printed and cut down.

A coin of its own decides whether a story has a kind of fault, so that stories differ in character and not only in
order. An action draws all its other choices from a stream of random numbers of its own: a plan without one of its
actions does not change the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from tests.sim.plan_admin import AdminOptions, admin_of
from tests.sim.plan_registration import RegistrationOptions, registration_of
from tests.sim.plan_topics import topic_calls_of

STORY_S: Final = 60.0
SPEAKS_AT_S: Final = 4.0
"""Until then some brokers do not answer; a controller needs their answer before it may delete a topic."""
WORK: Final = ("create", "expand", "produce", "produce", "ids_among_replicas")
FAULTS: Final = (
    "kill",
    "terminate",
    "freeze",
    "freeze_long",
    "zk_cut",
    "zk_cut_silently",
    "zk_lose_reply",
    "zk_lose_request",
    "zk_expire",
    "zk_expire_twice",
    "zk_down",
    "zk_slow",
    "zk_watch_lag",
    "zk_follower",
    "takeover",
    "resign",
    "broker_crash",
    "broker_bounce",
    "broker_pause",
    "broker_session",
    "broker_stuck",
    "broker_fault",
    "broker_error",
    "broker_slow",
    "broker_silent",
    "broker_refuses",
    "broker_stops",
    "brokers_apart",
    "link_cut",
    "link_blocked",
    "broken_topic",
    "broken_state",
    "foreign_state",
    "address_changes",
)
RARE: Final = ("election_race", "usurp")
"""Kinds that were added later, drawn from a stream of their own: the older part of each plan is unchanged."""
_FIRST_RARE: Final = 1000
LATE: Final = ("outsider_wins", "freeze_behind")
"""Kinds that were added last, with a stream of their own as well; ``plan_of`` can leave them out."""
_FIRST_LATE: Final = 2000
SETTINGS: Final = ("protocol_raised", "protocol_raised", "protocol_lowered", "setting_differs")
"""Changes of broker configurations, with a stream of their own: in a third of the stories."""
_FIRST_SETTING: Final = 2680
RETURN_IN_NEW_SESSION: Final = "topic_returns_in_new_session"
_FIRST_RETURN_IN_NEW_SESSION: Final = 2610
SWITCH_MOVES: Final = "switch_moves"
SWITCH_DIES: Final = "switch_dies_unheard"
"""Each in few stories, and never both: the file of only one broker turns unclean elections off there."""
_FIRST_SWITCH_MOVES: Final = 2675
_SHORT_SESSION_S: Final = 3.0
CURTAINS: Final = ("", "", "", "", "kill", "terminate", "kill both", "bury")
"""The last event of a story, after the cluster was healthy again: a process dies and does not come back."""


class Action(NamedTuple):
    """An event of a story at a virtual time; ``number`` names its stream of random numbers."""

    at: float
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.at:8.3f} {self.kind} #{self.number}"


class RareAction(NamedTuple):
    """An action of a share of the stories, drawn from a stream of its own: the rest of a plan is unchanged."""

    kind: str
    stream: str
    number: int
    """The number of the first action."""
    share: float
    since: float
    until: float
    times: int = 1

    def actions(self, seed: int) -> list[Action]:
        """The actions of a seed; most seeds have none."""
        rng = Random(f"{seed}/{self.stream}")
        if rng.random() > self.share:
            return []
        numbers = range(self.number, self.number + self.times)
        return [Action(rng.uniform(self.since, self.until), self.kind, number) for number in numbers]


AUDIT: Final = RareAction("self_audit", "audit", 2500, 0.25, 1.0, STORY_S, times=6)
"""Only in some stories: an audit repairs the effect of a lost watch, and would hide it."""
RETURN: Final = RareAction("topic_returns", "return", 2600, 0.08, 1.0, STORY_S / 2)
TOKENS: Final = RareAction("tokens_expire", "tokens", 2620, 0.1, 1.0, STORY_S, times=4)
WAITING: Final = RareAction("leader_dies_while_waiting", "waiting", 2650, 0.3, STORY_S / 4, STORY_S)
"""Not at the beginning, when brokers have just registered."""
UNCLEAN_TARGET: Final = RareAction("target_leads_uncleanly", "unclean target", 2660, 0.1, STORY_S / 4, STORY_S)
BESIDE_A_BOUNCE: Final = RareAction("returns_beside_a_bounce", "beside a bounce", 2670, 0.1, STORY_S / 4, STORY_S / 2)
FORBIDDEN: Final = RareAction("forbidden_setting", "forbidden", 2689, 0.1, 2.0, STORY_S / 2)
"""Early, because no instance leads for a while."""
OURS_ALONE: Final = RareAction("outsider_starts_on_us", "ours alone", 2690, 0.1, 1.0, STORY_S)
SHORT_SESSION: Final = RareAction("freeze_past_granted", "short session", 2698, 0.1, 2.0, STORY_S - 10.0)
"""For stories where ZooKeeper grants a shorter session than requested."""
UNKNOWN_DELETES: Final = RareAction("delete_while_unknown", "unknown deletes", 2699, 0.1, 2.0, SPEAKS_AT_S)
"""While no broker has answered whether topics may be deleted."""


@dataclass(slots=True)
class Options:
    """The cluster of a seed."""

    instances: int
    brokers: int
    topics: int
    replication: int
    unclean: bool
    racks: bool
    loses_calls: float
    """The share of the calls of brokers whose request is lost, and of the calls whose answer is lost."""
    breaths: float
    """The share of the possible yields at which an event yields to the loop."""
    curtain: str = ""
    """The process that dies for good at the end: one of ``CURTAINS``."""
    takes: bool = False
    """Whether instances take the role from a broker (``when_broker_holds``)."""
    brokers_3_0: int = 0
    """How many brokers, from the first on, are of release 3.0, as in an upgrade that stopped half-way."""
    admin: AdminOptions = field(default_factory=AdminOptions)
    registration: RegistrationOptions = field(default_factory=RegistrationOptions)
    protocol: str = "3.9-IV0"
    """``inter.broker.protocol.version`` of all brokers at the beginning."""
    only_clean: int = 0
    """The only broker that turns unclean elections off, where no instance has them configured; 0: the instances have.
    """
    is_clean_by_own: bool = False
    """Whether that broker does so by its own dynamic configuration, which the dynamic default cannot override."""
    longest_session_s: float | None = None
    """The session time-out that ZooKeeper grants at most; None: it grants every request."""
    has_tokens: bool = False
    """Whether there are delegation tokens, and instances check often whether one has expired."""
    asks_for_deletes: bool = False
    """Whether only brokers decide if topics may be deleted, and do not answer at the beginning."""

    def __str__(self) -> str:
        names = (
            "instances", "brokers", "topics", "replication", "unclean", "racks", "loses_calls", "breaths", "curtain",
            "takes", "brokers_3_0", "protocol", "only_clean", "is_clean_by_own",
            "asks_for_deletes", "longest_session_s", "has_tokens",
        )  # fmt: skip
        return ", ".join(
            [*(f"{name}={getattr(self, name)}" for name in names), str(self.admin), str(self.registration)]
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The options and the actions of a story."""

    seed: int
    options: Options
    actions: Sequence[Action]

    def with_actions(self, actions: Sequence[Action]) -> "Plan":
        """The plan with other actions for the same cluster."""
        return replace(self, options=replace(self.options), actions=list(actions))

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {self.options}", *map(str, self.actions)])


def plan_of(seed: int, *, is_late: bool = True, calls_for_topics: bool = True, has_old_brokers: bool = True) -> Plan:
    """Expand a seed; without ``is_late`` into the plan from before there were ``LATE`` and requests.

    Without ``calls_for_topics`` the plan is the one from before topics could be created, extended and deleted by
    call. Without ``has_old_brokers`` it is the one from before some brokers were older than 3.0, or
    configured anew, and before a silent broker registered anew while a topic returned.
    """
    rng = Random(f"{seed}/plan")
    brokers = rng.choice((1, 2, 3, 3, 3, 4, 5))
    options = Options(
        instances=rng.choice((1, 2, 2, 2, 3)),
        brokers=brokers,
        topics=rng.randrange(1, 5),
        replication=rng.randrange(1, min(brokers, 4) + 1),
        unclean=rng.random() < 0.15,
        racks=rng.random() < 0.2,
        loses_calls=rng.choice((0.0, 0.0, 0.0, 0.05, 0.3)),
        breaths=rng.choice((0.0, 0.02, 0.3)),
    )
    actions, rare = _actions(rng), Random(f"{seed}/rare")
    options.curtain = rare.choice(CURTAINS)
    actions += _rare_actions(rare)
    if is_late:
        late = Random(f"{seed}/late")
        options.takes = late.random() < 0.4
        options.brokers_3_0 = _brokers_3_0(Random(f"{seed}/releases"), brokers)
        options.admin, requests = admin_of(seed, STORY_S)
        actions += [*_late_actions(late), *(Action(*each) for each in requests)]
        actions += [action for act in (AUDIT, RETURN, WAITING) for action in act.actions(seed)]
    if is_late and calls_for_topics:
        actions += [Action(*each) for each in topic_calls_of(seed, STORY_S)]
    if is_late and calls_for_topics and has_old_brokers:
        actions += OURS_ALONE.actions(seed)
    if is_late and has_old_brokers:
        options.registration, registrations = registration_of(seed, brokers, STORY_S)
        actions += [Action(*each) for each in registrations]
        options.protocol, settings = _settings(Random(f"{seed}/settings"))
        actions += settings
        actions += _returns_in_new_session(Random(f"{seed}/return in new session"))
        actions += [action for act in (UNCLEAN_TARGET, BESIDE_A_BOUNCE, FORBIDDEN) for action in act.actions(seed)]
        switches = Random(f"{seed}/switches")
        options.only_clean = _only_clean(switches, options)
        options.is_clean_by_own = options.only_clean > 0 and switches.random() < 0.5
        actions += _switch_moves(Random(f"{seed}/switch moves"), options)
        actions += (freezes_isr := SHORT_SESSION.actions(seed))
        options.longest_session_s = _SHORT_SESSION_S if freezes_isr else None
        actions += (tokens := TOKENS.actions(seed))
        options.has_tokens = bool(tokens)
        # An instance that knows the settings of the one clean broker knows whether topics may be deleted.
        actions += (deletions := [] if options.only_clean else UNKNOWN_DELETES.actions(seed))
        options.asks_for_deletes = bool(deletions)
    return Plan(seed, options, sorted(actions))


def _brokers_3_0(rng: Random, brokers: int) -> int:
    return rng.randrange(1, brokers + 1) if rng.random() < 0.3 else 0


def _only_clean(rng: Random, options: Options) -> int:
    """Draw the broker that alone turns unclean elections off.

    The setting applies to the cluster, even if this broker dies.
    """
    return rng.randrange(1, options.brokers + 1) if rng.random() < 0.25 and not options.unclean else 0


def _actions(rng: Random) -> list[Action]:
    share = rng.choice((0.15, 0.3, 0.5))
    kinds = [kind for kind in FAULTS if rng.random() < share]
    times = sorted(rng.uniform(1.0, STORY_S) for _ in range(rng.choice((5, 12, 25))))
    faults = [(at, rng.choice(kinds)) for at in times] if kinds else []
    work = [(rng.uniform(0.5, STORY_S), rng.choice(WORK)) for _ in range(rng.choice((8, 15)))]
    both = sorted([*faults, *work])
    return [Action(at, kind, number) for number, (at, kind) in enumerate(both)]


def _rare_actions(rng: Random) -> list[Action]:
    kinds = [kind for kind in RARE if rng.random() < 0.3]
    if not kinds:
        return []
    times = [rng.uniform(1.0, STORY_S) for _ in range(rng.choice((1, 3)))]
    return [Action(at, rng.choice(kinds), number) for number, at in enumerate(times, _FIRST_RARE)]


def _late_actions(rng: Random) -> list[Action]:
    kinds = [kind for kind in LATE if rng.random() < 0.2]
    return [Action(rng.uniform(1.0, STORY_S), kind, number) for number, kind in enumerate(kinds, _FIRST_LATE)]


def _returns_in_new_session(rng: Random) -> list[Action]:
    at = rng.uniform(1.0, STORY_S / 2)
    return [Action(at, RETURN_IN_NEW_SESSION, _FIRST_RETURN_IN_NEW_SESSION)] if rng.random() < 0.08 else []


def _switch_moves(rng: Random, options: Options) -> list[Action]:
    share = rng.random()
    if options.unclean or options.replication == 1 or share > 0.4:
        return []
    options.only_clean, options.is_clean_by_own = options.only_clean or rng.randrange(1, options.brokers + 1), False
    kind = SWITCH_MOVES if share <= 0.2 else SWITCH_DIES
    return [Action(rng.uniform(0.4 * STORY_S, 0.8 * STORY_S), kind, _FIRST_SWITCH_MOVES)]


def _settings(rng: Random) -> tuple[str, list[Action]]:
    """The protocol version that brokers begin with, and the changes of configurations."""
    if rng.random() > 0.35:
        return "3.9-IV0", []
    times = [rng.uniform(1.0, STORY_S) for _ in range(rng.choice((2, 4, 8)))]
    actions = [Action(at, rng.choice(SETTINGS), number) for number, at in enumerate(times, _FIRST_SETTING)]
    return rng.choice(("3.9-IV0", "3.1-IV0", "2.8-IV1", "2.7-IV2")), actions
