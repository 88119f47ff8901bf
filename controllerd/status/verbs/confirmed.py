"""Confirmations: what destroys something repeats its name, so that no slip does it."""

from http import HTTPStatus

from controllerd.core.model import BrokerId
from controllerd.status.problems import Refused
from controllerd.status.schema.admin import ForgetRequest


def check_confirmed(asked: ForgetRequest, broker: BrokerId) -> None:
    """:raises Refused: there is no reason, or the broker's id is not repeated."""
    if not asked.reason or asked.confirm != broker:
        detail = f"forgetting broker {broker} needs a reason, and its id once more in the field confirm"
        hint = f'{{"reason": "why, for the audit log", "confirm": {broker}}}'
        raise Refused(HTTPStatus.BAD_REQUEST, "not_confirmed", detail, hint)
