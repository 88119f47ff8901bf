"""A fake broker that answers DescribeConfigs about itself, and no other request."""

import asyncio
from collections.abc import Mapping
from typing import Any

from controllerd.core.cluster_settings import MUST_BE_ABSENT, MUST_BE_FALSE, PROTOCOL_VERSION, SETTINGS
from tests.fakes.listening import ListeningFake
from wire.api_codec import fill
from wire.framing import RequestHeader
from wire.kio_codec import decode_request, encode_response, response_type
from wire.versions import ApiKey

STATIC = 4


def defaults() -> dict[str, str | None]:
    """The settings of an unconfigured broker of 3.9."""
    settings: dict[str, str | None] = {setting.name: setting.default for setting in SETTINGS}
    rules: dict[str, str | None] = {**dict.fromkeys(MUST_BE_FALSE, "false"), **dict.fromkeys(MUST_BE_ABSENT)}
    return settings | rules | {PROTOCOL_VERSION: "3.9-IV0", "authorizer.class.name": ""}


def encode_settings(frame: bytes, settings: Mapping[str, str | None] | None = None) -> bytes:
    """Return the answer to a DescribeConfigs request about one broker, without its length; Kafka's defaults if none."""
    head, query = decode_request(frame)
    question: Any = query
    (resource,) = question.resources
    return _answered(head, resource, settings or defaults(), 0)


def _answered(head: RequestHeader, resource: Any, settings: Mapping[str, str | None], error: int) -> bytes:
    rows = [_row(name, settings[name]) for name in resource.configuration_keys if name in settings]
    result = {
        "error_code": error,
        "error_message": None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": () if error else rows,
    }
    answer = fill(response_type(ApiKey.DESCRIBE_CONFIGS, head.version), {"results": [result]})
    return encode_response(head.correlation_id, answer)


class SettingsBroker(ListeningFake):
    """Use it as an async context manager; its attributes may change while it listens."""

    def __init__(
        self,
        broker: int,
        settings: Mapping[str, str | None] | None = None,
        *,
        is_silent: bool = False,
        error: int = 0,
    ) -> None:
        super().__init__()
        self.id = broker
        self.settings = defaults() | dict(settings or {})
        self.is_silent = is_silent
        self.error = error
        self.gate = asyncio.Event()
        """While it is not set, answers are held back."""
        self.gate.set()
        self.asked: list[list[str]] = []
        """The names in each request, in order."""

    async def answer(self, frame: bytes) -> bytes | None:
        """Answer for the broker itself, once the gate is open."""
        head, query = decode_request(frame)
        assert head.api_key == ApiKey.DESCRIBE_CONFIGS
        resource = self._note(query)
        await self.gate.wait()
        return None if self.is_silent else _answered(head, resource, self.settings, self.error)

    def _note(self, query: Any) -> Any:
        (resource,) = query.resources
        assert resource.resource_name == str(self.id), "only the broker itself can answer"
        self.asked.append(sorted(resource.configuration_keys))
        return resource


def _row(name: str, value: str | None) -> dict[str, object]:
    return {
        "name": name,
        "value": value,
        "config_source": STATIC,
        "read_only": False,
        "is_sensitive": False,
        "synonyms": (),
    }
