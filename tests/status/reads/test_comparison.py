"""How far a comparison has come is told honestly: never back, and nothing that nobody can know."""

from controllerd.status.reads.comparison import WAITING, Progress
from tests.fakes.world import ManualClock


def begun(clock: ManualClock, work: float = 10.0) -> Progress:
    """A comparison whose turn it is."""
    progress = Progress(clock.monotonic)
    progress.expect(work)
    return progress


def test_what_waits_for_its_turn_has_no_percentage_and_no_end_in_sight() -> None:
    progress = Progress(ManualClock().monotonic)

    assert (progress.stage, progress.percent, progress.eta_s) == (WAITING, None, None)


def test_stages_and_parts_of_them_add_up() -> None:
    progress = begun(ManualClock())

    progress.enter("reading ZooKeeper", 4.0)
    progress.advance(0.5)
    assert (progress.stage, progress.percent) == ("reading ZooKeeper", 20.0)
    progress.enter("asking broker 3 (1 of 1)", 6.0)
    assert progress.percent == 40.0
    progress.advance(7.0)
    assert progress.percent == 100.0


def test_what_is_begun_anew_does_not_take_anything_back() -> None:
    progress = begun(ManualClock())
    progress.enter("reading ZooKeeper", 10.0)

    progress.advance(0.75)
    progress.advance(0.25)

    assert progress.percent == 75.0


def test_more_work_shares_what_is_left_of_the_way() -> None:
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


def test_more_than_was_expected_ends_at_100() -> None:
    progress = begun(ManualClock())
    progress.enter("asking broker 1 (1 of 1)", 30.0)
    progress.advance(1.0)

    assert (progress.percent, progress.eta_s) == (100.0, None)
    progress.expect(5.0)
    assert progress.percent == 100.0


def test_what_is_left_is_reckoned_at_the_speed_so_far() -> None:
    clock = ManualClock()
    progress = begun(clock)
    progress.enter("reading ZooKeeper", 10.0)
    progress.advance(0.2)

    assert progress.eta_s is None  # nothing is known of the speed
    clock.now += 2.0
    assert progress.eta_s == 8.0


def test_a_pause_is_waited_for_and_is_no_work() -> None:
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
