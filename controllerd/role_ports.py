"""What goes with the role, besides the role itself; the rest of what handlers need is in ``ports.py``."""

from typing import Protocol

from controllerd.core.model import Broker


class Registrar(Protocol):
    """The registration of this instance under ``/brokers/ids``, where brokers older than 3.0 look for their controller.

    Election and resignation delete it in their own transactions (``Elector``).
    """

    async def register(self, entry: Broker) -> str | None:
        """Create the registration or bring it up to date. Fenced. The reason if it cannot be, None if it is there.

        :raises ControllerMoved: the role is not ours.
        """
        ...

    async def unregister(self) -> None:
        """Delete the registration of our session, if there is one. Needs no term."""
        ...

    async def remove_left_over(self) -> None:
        """Delete the registrations of controllerd that are not of our session. Fenced."""
        ...
