"""The recorded traces, replayed against the whole controller over a ZooKeeper in memory."""

import pytest

from tests.traces.compare import differences
from tests.traces.deviations import judge
from tests.traces.fake_rig import FakeRun
from tests.traces.scenarios import SERVED, served


@pytest.mark.parametrize("scenario", SERVED)
async def test_controller_writes_and_sends_in_memory_what_was_recorded(scenario: str) -> None:
    trace = served(scenario)
    observed = await FakeRun(trace).play()
    wrong = judge(scenario, differences(trace, observed, with_repeats=False))
    assert not wrong, f"{scenario}, {trace.description}:\n" + "\n".join(wrong)
