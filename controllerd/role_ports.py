"""The ports that go with the role; the other ports of handlers are in ``ports.py``."""

from typing import Protocol

from controllerd.core.model import Broker


class Registrar(Protocol):
    """The registration of this instance under ``/brokers/ids``, where brokers older than 3.0 look for their controller.

    Election and resignation delete it in their own transactions (``Elector``).
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
