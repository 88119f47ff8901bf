"""Every act on brokers of every release, at the lowest protocol version and at its own: ``make test-releases``.

One cluster serves all acts of a release: at the lowest version that controllerd serves first, then its brokers are
restarted one by one at the release's own. controllerd is configured for none of it.
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


class OneAtATime:
    """The cluster of the release of the moment; the one before it ends first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = AsyncExitStack()
        self._opened: tuple[str, ReleaseScene] | None = None

    async def of(self, case: Case, name: str) -> ReleaseScene:
        """A cluster of the release at the protocol version, led by controllerd unless the act is to take over."""
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
        """End it; what is found at its end is an error of the test after it, or of the last one."""
        self._opened = None
        await self._stack.aclose()


async def _raise_protocol(scene: ReleaseScene, protocol: str) -> None:
    """By a rolling restart under controllerd; then one of the brokers leads again, to be taken over from."""
    await scene.take_over()
    await scene.all_run()
    await scene.until_whole()
    await scene.roll(overrides={PROTOCOL: protocol})
    await scene.give_back()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clusters(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OneAtATime]:
    """Clusters, one at a time."""
    clusters = OneAtATime(tmp_path_factory.mktemp("releases"))
    try:
        yield clusters
    finally:
        await clusters.close()


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
async def test_a_release_is_led(clusters: OneAtATime, case: Case, name: str) -> None:
    seen.note(case, name, None)
    word = await ACTS[name].run(await clusters.of(case, name))
    seen.note(case, name, word or seen.YES)
