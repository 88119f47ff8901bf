"""The plan of a random run depends on its seed alone, and has no forbidden step."""

from collections import Counter
from itertools import islice

from tests.chaos.plan import BROKERS, KEPT, ChaosStep, Planner

STEPS = 500


def plan(seed: int) -> list[ChaosStep]:
    return list(islice(Planner(seed).steps(), STEPS))


def test_a_seed_gives_the_same_steps_each_time() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


def test_everything_happens_within_one_run() -> None:
    ways = Counter((step.verb, step.way) for step in plan(1))

    for verb in ("create", "add partitions", "delete"):
        assert ways[verb, "znode"] > 5, verb
    for verb in ("reassign", "elect"):
        assert min(ways[verb, "api"], ways[verb, "znode"]) > 5, verb
    for verb in ("stop", "end the controller"):
        assert min(ways[verb, "SIGKILL"], ways[verb, "SIGTERM"]) > 0, verb
    assert ways["cancel", "api"] > 5
    assert ways["settle", ""] == STEPS // 40


def test_topics_under_load_are_never_deleted_and_keep_their_replication() -> None:
    for step in (step for seed in range(20) for step in plan(seed) if step.topic in KEPT):
        assert step.verb != "delete"
        factor = len(KEPT[step.topic][0])
        assert all(len(replicas) in {0, factor} for _, replicas in step.partitions), step


def test_at_most_one_broker_is_down_at_a_time() -> None:
    for seed in range(20):
        down = set[int]()
        for step in plan(seed):
            if step.verb == "stop":
                down.add(step.broker)
            elif step.verb == "start":
                down.remove(step.broker)
            elif step.verb == "settle":
                down.clear()
            assert len(down) <= 1
            assert down <= set(BROKERS)


def test_a_step_reads_as_a_line() -> None:
    step = ChaosStep(3, 0.5, "reassign", "api", "pairs", ((0, (2, 1)), (1, (3, 2))))

    assert str(step) == "reassign pairs 0 to [2, 1], 1 to [3, 2] (api)"
    assert str(ChaosStep(4, 0.5, "stop", "SIGKILL", broker=2)) == "stop broker 2 (SIGKILL)"
