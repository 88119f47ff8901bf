"""The requests in the order in which they are sent, in parts between which the test changes the cluster."""

from typing import Final

from tests.real.comparison import others, peers
from tests.real.comparison.asking import Ask
from tests.real.comparison.creations import beginning, creations

BEGIN, STUCK, MOST, UNSTUCK, LIMITS, LAST, AWAY = "begin", "stuck", "most", "unstuck", "limits", "last", "away"
PARTS: Final[dict[str, list[Ask]]] = {
    BEGIN: beginning(),
    STUCK: [others.move("reorder", {others.MOVED: [2, 1]}), *others.stuck_moves()],
    MOST: [*creations(), *others.growth(), *others.elections(), *others.moves()],
    UNSTUCK: [
        *others.unstuck_moves(),
        *others.users(),
        *others.features(),
        *others.ids_and_configs(),
        *peers.with_wrong_identities(),
    ],
    LIMITS: [others.limit(others.LIMITED), others.limit(others.PROBE)],
    LAST: [*others.quotas(), *others.passive(), *peers.passive(), *others.deletions()],
    AWAY: list(others.elections_while_away()),
}
"""Before STUCK the test sets a throttle, which is needed until UNSTUCK. After LIMITS it waits for the quotas, and
before AWAY it stops a broker."""
EVERYTHING: Final = [ask for part in PARTS.values() for ask in part]
