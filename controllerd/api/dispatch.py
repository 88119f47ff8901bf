"""Dispatch requests: each is served, relayed to a broker, refused in its version, or ends with a closed connection."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controllerd.api.admin_calls import AdminCalls
from controllerd.api.broker_calls import BrokerCalls
from controllerd.api.broker_versions import BrokerVersions
from controllerd.api.catalog import ADMIN, KNOWN, MUTATIONS, NATIVE, advertised, is_relayable
from controllerd.api.envelopes import Envelopes
from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.large_messages import SMALL, decode_request, rows_in, run_in_thread_if_large
from controllerd.api.metadata_view import CLUSTER_OPERATIONS, MetadataView, unknown_names
from controllerd.api.producer_ids import OwnProducerIds
from controllerd.api.scram_calls import ScramCalls
from controllerd.api.sessions import AclOperation, Answered, Authorizer, Session, requester
from controllerd.api.shared_versions import SharedVersions
from controllerd.api.topic_calls import TopicCalls
from controllerd.core.kafka_error import KafkaError
from controllerd.slicer import sliced
from controllerd.snapshot import ClusterSnapshot
from wire.api_codec import Request
from wire.api_messages import (
    ConfigResource,
    answer_nothing,
    decode_api_versions,
    decode_config_resources,
    decode_describe_cluster,
    decode_init_producer_id,
    encode_api_versions,
    encode_config_results,
    encode_describe_cluster,
    encode_describe_cluster_error,
    encode_init_producer_id,
)
from wire.api_metadata import (
    NO_OPERATIONS,
    MetadataQuery,
    MetadataRequestTopic,
    TopicRow,
    decode_metadata,
    encode_metadata,
)
from wire.versions import ApiKey

_RESOURCE_BROKER: Final = 4
_RESOURCE_BROKER_LOGGER: Final = 8
_ENDPOINT_BROKERS: Final = 1
_ENDPOINT_CONTROLLERS: Final = 2


@dataclass(frozen=True, slots=True)
class Calls:
    """The families of native requests, each with the module that serves it."""

    brokers: BrokerCalls
    admin: AdminCalls
    topics: TopicCalls
    scram: ScramCalls
    envelopes: Envelopes


class Dispatcher:
    """Answer requests, each in exactly its version, or close the connection (``wire.md`` G-1)."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        calls: Calls,
        ids: OwnProducerIds,
        versions: BrokerVersions,
        shared: SharedVersions,
        authorizer: Authorizer,
    ) -> None:
        self._snapshot = snapshot
        self._calls = calls
        self._ids = ids
        self._versions = versions
        self._shared = shared
        self._authorizer = authorizer

    async def answer(self, request: Request, session: Session) -> Answered:
        """Return the response, and the time for which the connection is not read afterwards.

        :raises HangUp: no response is possible, and the connection must be closed.
        :raises MalformedMessage: the request cannot be decoded.
        """
        key, version = request.head.api_key, request.head.version
        if key == ApiKey.API_VERSIONS:
            return Answered([await self._api_versions(request, session)])
        if key == ApiKey.ENVELOPE:
            return Answered([await self._calls.envelopes.answer(request, session, self.answer)])
        if key not in NATIVE:
            if not is_relayable(key):
                raise HangUp(Reason.NOT_RELAYED if key in KNOWN else Reason.UNKNOWN_API, str(request.head))
            return Answered([await self._relay(request, session)])
        if version not in NATIVE[key]:
            raise HangUp(Reason.UNSUPPORTED_VERSION, str(request.head))
        if key in MUTATIONS:
            return await self._mutation(ApiKey(key), request, session)
        if key == ApiKey.METADATA:
            return Answered(await self._metadata(request, session))
        call = self._admin_call if key in ADMIN else self._broker_or_client_call
        return Answered([await call(ApiKey(key), request, session)])

    async def _mutation(self, key: ApiKey, request: Request, session: Session) -> Answered:
        """Answer requests that need a permission for each topic and count against quotas."""
        match key:
            case ApiKey.CREATE_TOPICS:
                return await self._calls.topics.create_topics(request, session)
            case ApiKey.DELETE_TOPICS:
                return await self._calls.topics.delete_topics(request, session)
            case _:
                return await self._calls.topics.create_partitions(request, session)

    async def _admin_call(self, key: ApiKey, request: Request, session: Session) -> bytes:
        """Answer requests of operators; each needs a permission on the cluster."""
        reads = key == ApiKey.LIST_PARTITION_REASSIGNMENTS
        denied = self._denied(session, AclOperation.DESCRIBE if reads else AclOperation.ALTER)
        match key:
            case ApiKey.ELECT_LEADERS:
                return await self._calls.admin.elect_leaders(request, requester(request, session), denied)
            case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
                return await self._calls.admin.alter_reassignments(request, requester(request, session), denied)
            case ApiKey.LIST_PARTITION_REASSIGNMENTS:
                return await self._calls.admin.list_reassignments(request, denied)
            case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
                return await self._calls.scram.alter_scram(request, session, denied)
            case _:
                return await self._calls.admin.update_features(request, requester(request, session), denied)

    async def _broker_or_client_call(self, key: ApiKey, request: Request, session: Session) -> bytes:
        """Answer the other native requests; those of brokers need ClusterAction."""
        denied = self._denied(session, AclOperation.CLUSTER_ACTION)
        match key:
            case ApiKey.ALTER_PARTITION:
                return await self._calls.brokers.alter_partition(request, denied)
            case ApiKey.ALLOCATE_PRODUCER_IDS:
                return await self._calls.brokers.allocate_producer_ids(request, denied)
            case ApiKey.CONTROLLED_SHUTDOWN:
                return await self._calls.brokers.controlled_shutdown(request, denied)
            case ApiKey.INIT_PRODUCER_ID:
                return await self._init_producer_id(request, session)
            case ApiKey.DESCRIBE_CLUSTER:
                return await self._describe_cluster(request, session)
            case ApiKey.DESCRIBE_CONFIGS:
                return await self._configs(request, session, AclOperation.DESCRIBE_CONFIGS)
            case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
                return await self._configs(request, session, AclOperation.ALTER_CONFIGS)
            case _:  # ListGroups, ListTransactions, DescribeLogDirs: this node has nothing of these
                return await run_in_thread_if_large(rows_in(request), answer_nothing, request)

    # -- permission and the relay --------------------------------------------------------------------------------------

    def _denied(self, session: Session, operation: AclOperation) -> KafkaError | None:
        allowed = self._authorizer.allows(session.principal, operation)
        return None if allowed else KafkaError.CLUSTER_AUTHORIZATION_FAILED

    async def _relay(self, request: Request, session: Session) -> bytes:
        if self._denied(session, AclOperation.RELAY):
            raise HangUp(Reason.NOT_AUTHORIZED, f"{session.principal} may not be relayed")
        return await session.relay.forward(request)

    # -- ApiVersions ---------------------------------------------------------------------------------------------------

    async def _api_versions(self, request: Request, session: Session) -> bytes:
        ours = NATIVE[ApiKey.API_VERSIONS]
        if request.head.version not in ours:
            return encode_api_versions(request.head, KafkaError.UNSUPPORTED_VERSION, {ApiKey.API_VERSIONS: ours})
        is_valid = await decode_request(decode_api_versions, request)
        if not is_valid:
            return encode_api_versions(request.head, KafkaError.INVALID_REQUEST, {})
        known = await self._versions.known(session.own.listener)
        can_relay = self._denied(session, AclOperation.RELAY) is None
        shared = self._shared.of(known.values())
        return encode_api_versions(request.head, KafkaError.NONE, advertised(shared if can_relay else {}))

    # -- metadata ------------------------------------------------------------------------------------------------------

    async def _metadata(self, request: Request, session: Session) -> list[bytes]:
        query = await decode_request(decode_metadata, request)
        if not self._snapshot.is_active:
            return [await self._relay(request, session)]
        unknown = await run_in_thread_if_large(len(query.topics or ()), unknown_names, query, self._snapshot.topics)
        if query.allow_auto_creation and unknown:
            try:
                return [await self._relay(request, session)]
            except HangUp as gone:
                if gone.reason is not Reason.NO_TARGET:
                    raise
        return await self._own_metadata(request, query, session)

    async def _own_metadata(self, request: Request, query: MetadataQuery, session: Session) -> list[bytes]:
        if self._denied(session, AclOperation.DESCRIBE):
            raise HangUp(Reason.NOT_AUTHORIZED, f"{session.principal} may not read metadata")
        view = MetadataView(self._snapshot, session.own, request.head.version)
        rows = await _topic_rows(view, query)
        pieces = []
        for piece in encode_metadata(request.head, view.head(query), rows):
            pieces.append(piece)
            # The topic list and each topic are immutable records, so the view is consistent throughout.
            await asyncio.sleep(0)
        return pieces

    async def _describe_cluster(self, request: Request, session: Session) -> bytes:
        query = await decode_request(decode_describe_cluster, request)
        if (denied := self._denied(session, AclOperation.DESCRIBE)) is not None:
            return encode_describe_cluster_error(request.head, denied, "not authorized")
        if query.endpoint_type == _ENDPOINT_CONTROLLERS:
            return encode_describe_cluster_error(
                request.head, KafkaError.MISMATCHED_ENDPOINT_TYPE, "this is an endpoint for brokers"
            )
        if query.endpoint_type != _ENDPOINT_BROKERS:
            return encode_describe_cluster_error(
                request.head, KafkaError.UNSUPPORTED_ENDPOINT_TYPE, f"no endpoint type {query.endpoint_type}"
            )
        if not self._snapshot.is_active:
            return await self._relay(request, session)
        nodes = MetadataView(self._snapshot, session.own, 0).nodes()
        operations = CLUSTER_OPERATIONS if query.wants_operations else NO_OPERATIONS
        return encode_describe_cluster(
            request.head, self._snapshot.cluster_id, self._snapshot.node_id, nodes, operations
        )

    # -- this node as a broker without replicas ------------------------------------------------------------------------

    async def _init_producer_id(self, request: Request, session: Session) -> bytes:
        query = await decode_request(decode_init_producer_id, request)
        if query.transactional_id is not None:
            return await self._relay(request, session)
        if (denied := self._denied(session, AclOperation.IDEMPOTENT_WRITE)) is not None:
            return encode_init_producer_id(request.head, denied)
        if (query.producer_id == -1) != (query.producer_epoch == -1):
            return encode_init_producer_id(request.head, KafkaError.INVALID_REQUEST)
        taken = self._ids.take(may_allocate=self._snapshot.is_active)
        if taken is not None:
            return encode_init_producer_id(request.head, KafkaError.NONE, taken)
        if not self._snapshot.is_active:
            return await self._relay(request, session)
        return encode_init_producer_id(request.head, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)

    async def _configs(self, request: Request, session: Session, operation: AclOperation) -> bytes:
        resources = await decode_request(decode_config_resources, request)
        if not all(self._is_own(resource) for resource in resources):
            return await self._relay(request, session)
        denied = self._denied(session, operation)
        error = denied or KafkaError.NONE
        return await run_in_thread_if_large(len(resources), encode_config_results, request.head, resources, error)

    def _is_own(self, resource: ConfigResource) -> bool:
        return resource.kind in (_RESOURCE_BROKER, _RESOURCE_BROKER_LOGGER) and resource.name == str(
            self._snapshot.node_id
        )


async def _topic_rows(view: MetadataView, query: MetadataQuery) -> list[TopicRow]:
    """Return the topics of a response; a client may name very many, known or not."""
    if query.topics is None or len(query.topics) <= SMALL:
        return view.topics(query.topics)
    wanted = await run_in_thread_if_large(len(query.topics), _distinct, query.topics)
    rows: list[TopicRow] = []
    for part in sliced(wanted, SMALL):
        rows += view.topics(part)
        await asyncio.sleep(0)
    return rows


def _distinct(topics: Sequence[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    return list(dict.fromkeys(topics))
