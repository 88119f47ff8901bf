"""Every act on brokers of every release, at the lowest protocol version and at its own: ``make test-releases``.

One cluster serves all acts of a release: first at the lowest version that controllerd serves. Then its brokers are
restarted one by one at the release's own version. controllerd has no setting for any of these versions.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from controllerd.core.protocol_versions import LOWEST
from tests.releases import seen
from tests.releases.acts import ACTS
from tests.releases.cases import Case, cases
from tests.releases.cluster import PROTOCOL, ReleaseScene, open_release

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.releases,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]


class ClusterPerRelease:
    """The cluster of the current release; the cluster of the previous release is closed first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = AsyncExitStack()
        self._opened: tuple[str, ReleaseScene] | None = None

    async def of(self, case: Case, name: str) -> ReleaseScene:
        """Return the case's cluster, with controllerd as its active controller unless the act is ``take_over``."""
        if self._opened is None or self._opened[0] != case.release:
            await self.close()
            scene = await self._stack.enter_async_context(
                open_release(self._directory / case.release, case.release, LOWEST)
            )
            self._opened = case.release, scene
        _, scene = self._opened
        if scene.protocols() != {case.protocol}:
            await _raise_protocol(scene, case.protocol)
        if name != "take_over":
            await scene.take_over()
        return scene

    async def close(self) -> None:
        """Close the cluster. Errors of its teardown fail the next test, or the last one."""
        self._opened = None
        await self._stack.aclose()


async def _raise_protocol(scene: ReleaseScene, protocol: str) -> None:
    """Raise the protocol version by a rolling restart under controllerd, then give the role back to a broker."""
    await scene.take_over()
    await scene.all_run()
    await scene.until_whole()
    await scene.roll(overrides={PROTOCOL: protocol})
    await scene.give_back()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clusters(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClusterPerRelease]:
    """Open the clusters of the releases, one at a time."""
    clusters = ClusterPerRelease(tmp_path_factory.mktemp("releases"))
    try:
        yield clusters
    finally:
        await clusters.close()


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
async def test_controllerd_leads_brokers_of_a_release(clusters: ClusterPerRelease, case: Case, name: str) -> None:
    seen.record_result(case, name, None)
    word = await ACTS[name].run(await clusters.of(case, name))
    seen.record_result(case, name, word or seen.YES)
