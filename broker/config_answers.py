"""Answer DescribeConfigs as a stock broker of 3.9 does about itself, for the settings that a controller reads."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.state import BrokerState
from controllerd.core.kafka_error import KafkaError
from wire.framing import RequestHeader

Values = Mapping[str, object]

_BROKER: Final = 4
_STATIC, _DEFAULT = 4, 5
DEFAULTS: Final[Mapping[str, str | None]] = {
    "alter.config.policy.class.name": None,
    "authorizer.class.name": "",
    "auto.leader.rebalance.enable": "true",
    "controller.quota.window.num": "11",
    "controller.quota.window.size.seconds": "1",
    "controller.socket.timeout.ms": "30000",
    "create.topic.policy.class.name": None,
    "default.replication.factor": "1",
    "delegation.token.expiry.check.interval.ms": "3600000",
    "delete.topic.enable": "true",
    "inter.broker.protocol.version": "3.9-IV0",
    "leader.imbalance.check.interval.seconds": "300",
    "leader.imbalance.per.broker.percentage": "10",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "remote.log.storage.system.enable": "false",
    "request.timeout.ms": "30000",
    "unclean.leader.election.enable": "false",
    "zookeeper.metadata.migration.enable": "false",
    "zookeeper.set.acl": "false",
}
"""Kafka's defaults in 3.9, repeated on purpose, so that tests find a mistake in the controller's table."""


async def describe_configs(state: BrokerState, _: RequestHeader, request: Any) -> Values:
    """Answer DescribeConfigs for this broker alone, as in Kafka."""
    return {"results": [_result(state, resource) for resource in request.resources]}


def _result(state: BrokerState, resource: Any) -> Values:
    head = {"resource_type": resource.resource_type, "resource_name": resource.resource_name, "error_message": None}
    if resource.resource_type != _BROKER or resource.resource_name != str(state.settings.broker_id):
        return {**head, "error_code": KafkaError.INVALID_REQUEST, "configs": ()}
    return {
        **head,
        "error_code": KafkaError.NONE,
        "configs": tuple(_rows(resource.configuration_keys, state.settings.shared)),
    }


def _rows(names: tuple[str, ...] | None, shared: Mapping[str, str]) -> Iterator[Values]:
    for name in DEFAULTS if names is None else names:
        if name in shared or name in DEFAULTS:
            yield {
                "name": name,
                "value": shared.get(name, DEFAULTS.get(name)),
                "config_source": _STATIC if name in shared else _DEFAULT,
                "read_only": True,
                "is_sensitive": False,
                "synonyms": (),
            }
