"""Znodes that brokers write and the controller reads: registrations and notifications."""

from collections.abc import Sequence
from typing import Protocol

from controllerd.core.model import Broker, BrokerId
from controllerd.ports.results import BrokersRead, NotificationsRead


class BrokerStore(Protocol):
    """The registrations of brokers."""

    async def read_brokers(self) -> BrokersRead:
        """Read all of ``/brokers/ids``; arms the child watch and a data watch per broker."""
        ...

    async def read_broker(self, broker: BrokerId) -> Broker | None:
        """Read one registration, None if it is gone; arms its data watch. :raises BadZnode: it cannot be decoded."""
        ...


class NotificationStore(Protocol):
    """The notifications of brokers: changed ISRs (before AlterPartition) and failed log directories."""

    async def read_isr_notifications(self) -> NotificationsRead:
        """Read the children of ``/isr_change_notification``; arms the child watch."""
        ...

    async def delete_isr_notifications(self, names: Sequence[str]) -> None:
        """Delete these children. Fenced; a child that does not exist is no error."""
        ...

    async def read_log_dir_notifications(self) -> NotificationsRead:
        """Read the children of ``/log_dir_event_notification``; arms the child watch."""
        ...

    async def delete_log_dir_notifications(self, names: Sequence[str]) -> None:
        """Delete these children. Fenced; a child that does not exist is no error."""
        ...
