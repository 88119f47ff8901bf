"""The catalog of APIs: every API has one place, and no request gets around the permission that it needs."""

from itertools import chain

from controllerd.api.catalog import (
    FAMILIES,
    FORWARDED,
    KNOWN,
    NATIVE,
    NEVER_RELAYED,
    PARTLY_RELAYED,
    UNWANTED,
    advertised,
    is_relayable,
)
from controllerd.api.native import NativeApi, apis_of
from controllerd.api.sessions import AclOperation
from controllerd.api.topic_calls import TopicCalls
from wire.versions import ApiKey, VersionRange

ABOUT_REQUESTS = {ApiKey.API_VERSIONS, ApiKey.ENVELOPE}
APIS: list[NativeApi] = list(chain.from_iterable(map(apis_of, FAMILIES)))
EVERY_KEY = range(-1, 128)
EVERY_VERSION = range(-1, 20)


def test_every_api_is_served_once_in_its_versions_and_in_no_others() -> None:
    served = [(api.key, version) for api in APIS for version in EVERY_VERSION if version in api.versions]

    assert len(served) == len(set(served))
    assert set(served) == {
        (key, version)
        for key in EVERY_KEY
        for version in EVERY_VERSION
        if key not in ABOUT_REQUESTS and version in NATIVE.get(key, ())
    }


def test_every_api_is_either_native_or_relayed_or_refused() -> None:
    for key in EVERY_KEY:
        places = [key in NATIVE, is_relayable(key), key in NEVER_RELAYED | UNWANTED, key not in KNOWN | UNWANTED]
        assert places.count(True) == 1, key


def test_nothing_that_is_refused_is_advertised() -> None:
    by_brokers = {key: VersionRange(0, 99) for key in EVERY_KEY}

    shown = advertised(by_brokers)

    assert shown.keys() == NATIVE.keys() | {key for key in EVERY_KEY if is_relayable(key)}
    assert all(shown[key] == versions for key, versions in NATIVE.items())


def test_brokers_forward_only_requests_of_operators() -> None:
    operators = {api.key for api in APIS if api.needs in {AclOperation.ALTER, AclOperation.DESCRIBE}}
    per_topic = {api.key for api in apis_of(TopicCalls)}

    assert operators | per_topic >= FORWARDED
    assert not FORWARDED & PARTLY_RELAYED


def test_only_requests_that_change_and_show_nothing_of_the_cluster_need_no_permission() -> None:
    free = {api.key for api in APIS if api.needs is None} - {api.key for api in apis_of(TopicCalls)}

    assert free == {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_LOG_DIRS}
