"""The progress of a comparison: it never decreases, and claims nothing that is not known."""

from controllerd.status.reads.comparison import WAITING, ComparisonProgress
from tests.fakes.world import ManualClock


def begun(clock: ManualClock, work: float = 10.0) -> ComparisonProgress:
    """The progress of a comparison that has begun."""
    progress = ComparisonProgress(clock.monotonic)
    progress.expect(work)
    return progress


def test_a_waiting_comparison_has_no_percentage_and_no_estimated_end() -> None:
    progress = ComparisonProgress(ManualClock().monotonic)

    assert (progress.stage, progress.percent, progress.eta_s) == (WAITING, None, None)


def test_stages_and_their_parts_add_up() -> None:
    progress = begun(ManualClock())

    progress.enter("reading ZooKeeper", 4.0)
    progress.advance(0.5)
    assert (progress.stage, progress.percent) == ("reading ZooKeeper", 20.0)
    progress.enter("asking broker 3 (1 of 1)", 6.0)
    assert progress.percent == 40.0
    progress.advance(7.0)
    assert progress.percent == 100.0


def test_a_smaller_part_than_before_is_ignored() -> None:
    progress = begun(ManualClock())
    progress.enter("reading ZooKeeper", 10.0)

    progress.advance(0.75)
    progress.advance(0.25)

    assert progress.percent == 75.0


def test_additional_work_shares_the_remaining_percentage() -> None:
    progress = begun(ManualClock())
    progress.enter("reading ZooKeeper", 10.0)
    progress.advance(0.5)

    progress.expect(5.0)
    assert progress.percent == 50.0
    progress.advance(1.0)
    assert progress.percent == 75.0
    progress.enter("looking again", 5.0)
    progress.advance(1.0)
    assert progress.percent == 100.0


def test_more_work_than_expected_ends_at_100_percent() -> None:
    progress = begun(ManualClock())
    progress.enter("asking broker 1 (1 of 1)", 30.0)
    progress.advance(1.0)

    assert (progress.percent, progress.eta_s) == (100.0, None)
    progress.expect(5.0)
    assert progress.percent == 100.0


def test_the_remaining_time_follows_from_the_speed_so_far() -> None:
    clock = ManualClock()
    progress = begun(clock)
    progress.enter("reading ZooKeeper", 10.0)
    progress.advance(0.2)

    assert progress.eta_s is None  # the speed is not known yet
    clock.now += 2.0
    assert progress.eta_s == 8.0


def test_a_pause_adds_to_the_remaining_time_and_not_to_the_work() -> None:
    clock = ManualClock()
    progress = begun(clock)
    progress.enter("reading ZooKeeper", 10.0)
    progress.advance(1.0)
    clock.now += 4.0

    progress.expect(5.0, pause_s=2.0)
    assert progress.eta_s == 4.0
    clock.now += 2.0
    progress.resume()

    assert progress.eta_s == 2.0
