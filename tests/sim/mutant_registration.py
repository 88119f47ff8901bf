"""Planted bugs of the registration under ``/brokers/ids``."""

from typing import Final

from tests.sim.mutant import bug

REGISTRATIONS: Final = (
    bug(
        "registration-stays",
        "an instance that gives the role up leaves its registration for a moment",
        "ADR 0032",
        "controllerd/zk/elector.py",
        "if await self._delete(node, await self.registrar.find_own(), term):",
        "if await self._delete(node, None, term):",
    ),
    bug(
        "registration-unchecked",
        "an instance registers without looking whether its /controller is still there",
        "ADR 0032",
        "controllerd/zk/registrar.py",
        "CheckVersion(paths.CONTROLLER, holder.version),",
        "CheckVersion(paths.CONTROLLER_EPOCH, self._fence()),",
    ),
    bug(
        "registration-unfenced",
        "an instance registers without looking whether another was elected since",
        "ADR 0032",
        "controllerd/zk/registrar.py",
        "CheckVersion(paths.CONTROLLER_EPOCH, self._fence()),",
        "CheckVersion(paths.CONTROLLER, holder.version),",
    ),
    bug(
        "registration-survives-takeover",
        "an election leaves the registration of the instance that led before",
        "ADR 0032, KAFKA-7165",
        "controllerd/zk/elector.py",
        "registrations=cluster.registrations)",
        "registrations=())",
    ),
    bug(
        "registration-outlives-role",
        "an instance that finds the role lost stays registered while its session lives",
        "ADR 0032",
        "handlers/role.py",
        "    if not c.is_active:\n        await c.role.registrar.unregister()\n",
        "    return\n",
    ),
    bug(
        "registration-is-a-broker",
        "the registration of an instance counts as a broker",
        "ADR 0032",
        "controllerd/zk/store_brokers.py",
        "if id_ is not None and id_ in OUR_IDS}",
        "if id_ is not None and id_ < 0}",
    ),
    bug(
        "left-over-stays",
        "a registration that an election did not see is not deleted later",
        "ADR 0032",
        "controllerd/services/registration.py",
        "        await c.role.registrar.remove_left_over()\n",
        "        pass\n",
    ),
    bug(
        "old-broker-unheard",
        "a broker older than 3.0 does not make the active instance register",
        "ADR 0032, KafkaServer.doControlledShutdown",
        "handlers/responses.py",
        "    await keep_registered(c)\n",
        "",
    ),
)
