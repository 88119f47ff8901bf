"""Configurations that change at run time: nobody tells a controller that is no broker, so it watches them itself."""

from controllerd.controller import Controller
from events.elections import ConfigChange


async def load_configs(_c: Controller) -> None:
    """Learn the dynamic defaults at the start of a term; from now on changes are noticed."""


async def on_config_change(_event: ConfigChange, _c: Controller) -> None:
    """Something below ``/config`` changed."""
