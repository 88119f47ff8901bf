"""The role of the active controller: the election, and the registration that exists with the role."""

from typing import Protocol

from controllerd.core.model import Broker
from controllerd.ports.results import Held, Won
from controllerd.views import Holder


class Elector(Protocol):
    """The role: ``/controller`` and ``/controller_epoch``."""

    async def elect(self, *, takeover: bool = False) -> Won | Held:
        """Try to get the role; with ``takeover`` also from a live holder. Binds the store's fence to the term.

        The ``/controller`` of an earlier process of this instance (same uuid) is replaced at once, that of a broker
        only if it is configured.

        :raises RefusedToLead: this cluster must not be led by this instance; the message says why and what to do.
        """
        ...

    async def read_holder(self) -> Holder | None:
        """Return the holder of ``/controller``; arms its watch for creation, change and deletion."""
        ...

    async def is_ours(self) -> bool:
        """Whether ``/controller`` belongs to our present session; arms its watch."""
        ...

    async def renew(self) -> Won:
        """Begin a new term in one transaction: epoch + 1, delete and create ``/controller``.

        In one transaction, so that no other instance can take the role in between.

        :raises ControllerMoved: the role is no longer ours.
        """
        ...

    async def resign(self) -> None:
        """Delete ``/controller`` and our registration behind the fence, and unbind the fence.

        Deletes nothing if the role is not ours.
        """
        ...

    def forget_term(self) -> None:
        """Unbind the fence without a request to ZooKeeper: from now on every write raises ``ControllerMoved``."""
        ...


class Registrar(Protocol):
    """The registration of this instance under ``/brokers/ids``, where brokers older than 3.0 look up the controller.

    An election and a resignation delete it in their own transactions (``Elector``).
    """

    async def register(self, entry: Broker) -> str | None:
        """Create or update the registration, behind the fence. Return None, or the reason why it is refused.

        :raises ControllerMoved: the role is not ours.
        """
        ...

    async def unregister(self) -> None:
        """Delete the registration of our session, if there is one, with or without a term."""
        ...

    async def is_registered(self) -> bool:
        """Whether the registration of our session exists. :raises StoreUnavailable: the session is lost."""
        ...

    async def remove_left_over(self) -> None:
        """Delete the registrations of controllerd that are not of our session, behind the fence."""
        ...
