"""Every control request of the controller's own encoders, in every version, as kio and the broker read it."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import decode
from controllerd.core.model import NO_EPOCH, LeaderRecoveryState
from controllerd.core.requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from tests.wire import samples
from wire import control_requests
from wire.framing import RequestHeader, encode_request_header
from wire.kio_codec import decode_request
from wire.versions import CONTROL_VERSIONS, ApiKey


def versions(key: ApiKey) -> Iterable[int]:
    lowest, highest = CONTROL_VERSIONS[key]
    return range(lowest, highest + 1)


def as_kio_reads(request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest, version: int) -> object:
    key = control_requests.api_key(request)
    head = encode_request_header(RequestHeader(key, version, 1, "controller"))
    return decode_request(head + b"".join(control_requests.encode(request, version))).entity


@pytest.mark.parametrize("version", versions(ApiKey.LEADER_AND_ISR))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_leader_and_isr_arrives_as_it_was_sent(version: int, data: st.DataObject) -> None:
    request = data.draw(samples.leader_and_isr_requests)

    found = decode.leader_and_isr(as_kio_reads(request, version))

    assert set(found.partitions) == set(request.partitions)
    assert found.broker_epoch == (request.broker_epoch if version >= 2 else NO_EPOCH)
    named = {tp.topic for tp in request.partitions}
    assert found.topic_ids == ({t: i for t, i in request.topic_ids.items() if t in named} if version >= 5 else {})
    for tp, sent_state in request.partitions.items():
        recovery = sent_state.state.recovery_state if version >= 6 else LeaderRecoveryState.RECOVERED
        assert found.partitions[tp].state == sent_state.state._replace(recovery_state=recovery)
        assert found.partitions[tp].assignment.replicas == sent_state.assignment.replicas
        assert found.partitions[tp].is_new == (sent_state.is_new if version >= 1 else False)
        assert found.partitions[tp].assignment.adding == (sent_state.assignment.adding if version >= 3 else ())


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_METADATA))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_update_metadata_arrives_as_it_was_sent(version: int, data: st.DataObject) -> None:
    request = data.draw(samples.update_metadata_requests)

    found = decode.update_metadata(as_kio_reads(request, version))

    assert (found.controller_id, found.controller_epoch) == (request.controller_id, request.controller_epoch)
    assert [broker.id for broker in found.body.live_brokers] == [broker.id for broker in request.body.live_brokers]
    if version >= 3:
        sent = [(broker.endpoints, broker.rack) for broker in request.body.live_brokers]
        assert [(broker.endpoints, broker.rack) for broker in found.body.live_brokers] == sent
    for tp, sent_state in request.body.partitions.items():
        state = sent_state.state._replace(recovery_state=LeaderRecoveryState.RECOVERED)
        assert found.body.partitions[tp].state == state
        assert found.body.partitions[tp].replicas == sent_state.replicas
        assert found.body.partitions[tp].offline_replicas == (sent_state.offline_replicas if version >= 4 else ())


@pytest.mark.parametrize("version", versions(ApiKey.STOP_REPLICA))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_stop_replica_arrives_as_it_was_sent(version: int, data: st.DataObject) -> None:
    request = data.draw(samples.stop_replica_requests)

    parts = [part for part in control_requests.split(request, version) if isinstance(part, StopReplicaRequest)]
    found = [decode.stop_replica(as_kio_reads(part, version)) for part in parts]

    arrived = {tp: stop for part in found for tp, stop in part.partitions.items()}
    assert {tp: stop.delete for tp, stop in arrived.items()} == {tp: s.delete for tp, s in request.partitions.items()}
    if version >= 3:
        assert arrived == request.partitions
