"""Dispatch is complete: the unions that the type checker checks name every event class."""

import typing

from events import admin, cluster, elections, operator, reassignments, registry, replicas, responses, topics
from events.base import Call, Event

FAMILIES = (admin, cluster, elections, operator, reassignments, replicas, responses, topics)


def defined_events() -> set[type]:
    members = [member for family in FAMILIES for member in vars(family).values() if isinstance(member, type)]
    return {member for member in members if issubclass(member, Event) and member not in {Event, Call}}


def test_every_event_is_in_the_union_that_dispatch_covers() -> None:
    assert set(typing.get_args(registry.AnyEvent)) == defined_events()


def test_no_event_is_in_two_families() -> None:
    unions = [union for family in FAMILIES for name, union in vars(family).items() if name.endswith("Event")]

    members = [member for union in unions for member in typing.get_args(union)]

    assert len(members) == len(set(members))


def test_every_event_declares_its_controller_state_and_its_failures() -> None:
    for event in typing.get_args(registry.AnyEvent):
        assert {"state", "failures"} <= vars(event).keys(), event


def test_every_event_but_role_events_requires_the_active_controller() -> None:
    open_to_all = {event for event in typing.get_args(registry.AnyEvent) if not event.requires_active}

    assert open_to_all == {*typing.get_args(cluster.RoleEvent), responses.BrokerSettingsReceived}
