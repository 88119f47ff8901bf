"""The recorded traces, replayed with stub brokers on sockets and a real ZooKeeper server."""

import pytest

from tests.traces.compare import differences
from tests.traces.deviations import judge, missing
from tests.traces.real_rig import RealRun, TraceServer
from tests.traces.scenarios import SERVED, served


@pytest.mark.zookeeper
@pytest.mark.parametrize("scenario", SERVED)
async def test_controller_writes_and_sends_for_real_what_was_recorded(scenario: str, server: TraceServer) -> None:
    trace = served(scenario)
    observed = await RealRun(trace, server, f"/{scenario}", missing(scenario)).play()
    wrong = judge(scenario, differences(trace, observed), unseen=["compares the version"])
    assert not wrong, f"{scenario}, {trace.description}:\n" + "\n".join(wrong)
