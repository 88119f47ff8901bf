"""Replicas that a broker must delete when it is back, because they were removed while it was away."""

from collections.abc import Iterable

from controllerd.controller import Controller
from controllerd.core.model import BrokerId


async def pay_debts(_brokers: Iterable[BrokerId], _c: Controller) -> None:
    """These brokers are live: tell them what to delete."""
