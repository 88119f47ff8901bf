"""The registration of this instance under ``/brokers/ids``, while it leads and brokers need it.

Brokers older than 3.0 look their controller up there before a controlled shutdown; without the
registration they shut down unclean. Every other reader would only count one broker too many. So
controllerd registers only when such a broker is known.
"""

from collections.abc import Set as AbstractSet
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.model import BrokerId
from controllerd.core.releases import Release
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)

FINDS_US_IN_METADATA: Final = Release(3, 0)
"""The first release whose brokers find the controller in their metadata (``KafkaServer.doControlledShutdown``)."""


async def keep_registered(c: Controller) -> None:
    """Register if a broker needs it, and keep the registration equal to our entry in the metadata of brokers.

    Once created the registration stays for the term: a broker that needs it may be stopped at any
    time.

    :raises ControllerMoved: the role is not ours.
    """
    entry = c.local.our_entry() if c.is_active and _is_wanted(c) else None
    if entry is None or entry == c.role.registered:
        return
    if (reason := await c.role.registrar.register(entry)) is not None:
        log.error("could not register controllerd", reason=reason)
        c.audit.record(AlarmRecord("controllerd cannot be registered", reason))
        return
    log.info("registered controllerd among the brokers", rack=entry.rack, oldest=str(c.context.releases.oldest))
    c.role.registered, c.snapshot.registered, c.role.needs_registration = entry, True, True


async def reconcile_registrations(registered: AbstractSet[BrokerId], c: Controller) -> None:
    """Forget our registration if it is gone, and delete registrations that other controllerd instances left behind.

    If ours was deleted, the next ``keep_registered`` creates it again. A znode at its path is ours only
    if our session owns it: a registration that an election missed may have taken its place since.
    """
    own_id = BrokerId(c.node_id)
    has_own = c.role.registered is not None and own_id in registered and await c.role.registrar.is_registered()
    if c.role.registered is not None and not has_own:
        log.warning("lost registration of controllerd")
        forget_registration(c)
    if registered - ({own_id} if has_own else set()):
        await c.role.registrar.remove_left_over()


def forget_registration(c: Controller) -> None:
    """Forget our registration: none is known to exist."""
    c.role.registered, c.snapshot.registered = None, False


def _is_wanted(c: Controller) -> bool:
    oldest = c.context.releases.oldest
    match c.local.register:
        case "always":
            return True
        case "never":
            return False
        case _:
            return c.role.needs_registration or (oldest is not None and oldest < FINDS_US_IN_METADATA)
