"""kafka-configs: topics, brokers, users and clients; and kafka-acls, of which there are none in an open cluster."""

from typing import Final

from tests.tools.cells import Client, Way, cell, contains

CONFIGS: Final = Client("kafka-configs", "kafka.admin.ConfigCommand")
ACLS: Final = Client("kafka-acls", "kafka.admin.AclCommand")
OURS: Final = "2000000000"
IN_WORDS: Final = "refused in Kafka's words"
_LOGGER: Final = "kafka.request.logger"


def _of(kind: str, name: str) -> tuple[str, ...]:
    return ("--entity-type", kind, "--entity-name", name)


async def _altered(way: Way, *entity: str, change: str, what: str = "--add-config") -> None:
    contains(await way.tool(CONFIGS, "--alter", *entity, what, change), "Completed updating ")


@cell(CONFIGS, "topics: `--alter`, `--describe`, `--delete-config`")
async def topics(way: Way) -> None:
    name = await way.topic({0: [1, 2]})
    entity = _of("topics", name)
    await _altered(way, *entity, change="retention.ms=77000,flush.ms=5")
    told = await way.tool(CONFIGS, "--describe", *entity)
    contains(told, f"Dynamic configs for topic {name} are:", "retention.ms=77000 sensitive=false", "flush.ms=5 ")
    await _altered(way, *entity, change="retention.ms", what="--delete-config")
    assert await way.configs(f"topics/{name}") == {"flush.ms": "5"}


@cell(CONFIGS, "topics: `--describe --all`")
async def topics_all(way: Way) -> None:
    name = await way.topic({0: [1]}, {"flush.ms": "5"})
    told = await way.tool(CONFIGS, "--describe", "--all", *_of("topics", name))
    contains(told, f"All configs for topic {name} are:", "segment.bytes=1073741824", "flush.ms=5 sensitive=false")


@cell(CONFIGS, "topics: a value that must not be", IN_WORDS)
async def topics_refused(way: Way) -> None:
    name = await way.topic({0: [1]})
    says = "Invalid value x for configuration retention.ms: Not a number of type LONG"
    await way.refused(CONFIGS, "--alter", *_of("topics", name), "--add-config", "retention.ms=x", says=says)
    assert await way.configs(f"topics/{name}") == {}


@cell(CONFIGS, "topics: of a topic that there is not", IN_WORDS)
async def topics_unknown(way: Way) -> None:
    entity = _of("topics", "no-such-topic")
    says = "UnknownTopicOrPartitionException"
    await way.refused(CONFIGS, "--alter", *entity, "--add-config", "flush.ms=5", says=says)
    assert await way.configs("topics/no-such-topic") == {}


@cell(CONFIGS, "brokers: `--alter`, `--describe`, `--delete-config` of one")
async def broker(way: Way) -> None:
    entity = _of("brokers", "2")
    await _altered(way, *entity, change="log.cleaner.threads=2")
    told = await way.tool(CONFIGS, "--describe", *entity)
    contains(told, "Dynamic configs for broker 2 are:", "log.cleaner.threads=2")
    assert (await way.configs("brokers/2"))["log.cleaner.threads"] == "2"
    await _altered(way, *entity, change="log.cleaner.threads", what="--delete-config")
    assert "log.cleaner.threads" not in await way.configs("brokers/2")


@cell(CONFIGS, "brokers: `--describe --all` of one")
async def broker_all(way: Way) -> None:
    told = await way.tool(CONFIGS, "--describe", "--all", *_of("brokers", "1"))
    contains(told, "All configs for broker 1 are:", "broker.id=1 ")


@cell(CONFIGS, "brokers: the default of all")
async def brokers_default(way: Way) -> None:
    entity = ("--entity-type", "brokers", "--entity-default")
    key = "log.retention.ms"
    await _altered(way, *entity, change=f"{key}=77000000")
    told = await way.tool(CONFIGS, "--describe", *entity)
    contains(told, "Default configs for brokers in the cluster are:", f"{key}=77000000")
    assert (await way.configs("brokers/<default>"))[key] == "77000000"
    await _altered(way, *entity, change=key, what="--delete-config")
    assert key not in await way.configs("brokers/<default>")


@cell(CONFIGS, "brokers: `--describe` of controllerd's own id", "works; it has no configurations")
async def ourselves(way: Way) -> None:
    told = await way.tool(CONFIGS, "--describe", "--all", *_of("brokers", OURS))
    assert told.strip() == f"All configs for broker {OURS} are:"


@cell(CONFIGS, "brokers: `--alter` of controllerd's own id", "accepted, and nothing comes of it")
async def ourselves_altered(way: Way) -> None:
    await _altered(way, *_of("brokers", OURS), change="log.cleaner.threads=2")
    assert await way.configs(f"brokers/{OURS}") == {}


@cell(CONFIGS, "broker-loggers: `--alter`, `--describe`, `--delete-config`")
async def loggers(way: Way) -> None:
    entity = _of("broker-loggers", "1")
    await _altered(way, *entity, change=f"{_LOGGER}=DEBUG")
    contains(await way.tool(CONFIGS, "--describe", *entity), f"{_LOGGER}=DEBUG")
    await _altered(way, *entity, change=_LOGGER, what="--delete-config")
    contains(await way.tool(CONFIGS, "--describe", *entity), f"{_LOGGER}=INFO")


@cell(CONFIGS, "users: SCRAM credentials")
async def scram(way: Way) -> None:
    user = way.new_name("user")
    entity = _of("users", user)
    secret = "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]"
    await _altered(way, *entity, change=secret)
    told = await way.tool(CONFIGS, "--describe", *entity)
    contains(told, f"for user-principal '{user}' are ")
    contains(told, "SCRAM-SHA-256=iterations=8192", "SCRAM-SHA-512=iterations=4096")
    await _altered(way, *entity, change="SCRAM-SHA-256", what="--delete-config")
    stored = await way.configs(f"users/{user}")
    assert stored.keys() == {"SCRAM-SHA-512"}
    assert "secret" not in str(stored)


@cell(CONFIGS, "users: a credential with too many iterations", IN_WORDS)
async def scram_refused(way: Way) -> None:
    user = way.new_name("user")
    change = ("--add-config", "SCRAM-SHA-256=[iterations=16385,password=secret]")
    await way.refused(CONFIGS, "--alter", *_of("users", user), *change, says="Too many iterations")
    assert await way.configs(f"users/{user}") == {}


@cell(CONFIGS, "users, clients and both: quotas")
async def quotas(way: Way) -> None:
    user, client = way.new_name("user"), way.new_name("client")
    for entity in (_of("users", user), _of("clients", client), (*_of("users", user), *_of("clients", client))):
        await _altered(way, *entity, change="producer_byte_rate=1024,controller_mutation_rate=5")
        told = await way.tool(CONFIGS, "--describe", *entity)
        contains(told, "Quota configs for ", "producer_byte_rate=1024.0", "controller_mutation_rate=5.0")
    await _altered(way, *_of("clients", client), change="producer_byte_rate", what="--delete-config")
    assert (await way.configs(f"clients/{client}")).keys() == {"controller_mutation_rate"}
    both = {"controller_mutation_rate", "producer_byte_rate"}
    assert (await way.configs(f"users/{user}")).keys() == both
    assert (await way.configs(f"users/{user}/clients/{client}")).keys() == both


@cell(CONFIGS, "users and clients: the default of all")
async def quotas_by_default(way: Way) -> None:
    for kind, named in (("users", "the default user-principal"), ("clients", "the default client-id")):
        entity = ("--entity-type", kind, "--entity-default")
        await _altered(way, *entity, change="request_percentage=200")
        told = await way.tool(CONFIGS, "--describe", *entity)
        contains(told, f"Quota configs for {named} are", "request_percentage=200.0")
        await _altered(way, *entity, change="request_percentage", what="--delete-config")
        assert await way.configs(f"{kind}/<default>") == {}


@cell(ACLS, "`--list`", "refused, as there is no authorizer")
async def acls(way: Way) -> None:
    await way.refused(ACLS, "--list", says="SecurityDisabledException: No Authorizer is configured")
