"""Requests of ordinary clients to this node, which looks to them like a broker without replicas.

A request that only another node can serve is relayed to a broker.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.large_messages import SMALL, decode_request, rows_in, run_in_thread_if_large
from controllerd.api.metadata_view import CLUSTER_OPERATIONS, MetadataView, unknown_names
from controllerd.api.native import NativeRequest, serves
from controllerd.api.producer_ids import OwnProducerIds
from controllerd.api.sessions import AclOperation, Answered
from controllerd.core.kafka_error import KafkaError
from controllerd.slicer import sliced
from controllerd.snapshot import ClusterSnapshot
from wire.api_messages import (
    ConfigResource,
    answer_nothing,
    decode_config_resources,
    decode_describe_cluster,
    decode_init_producer_id,
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
from wire.versions import ApiKey, VersionRange

_RESOURCE_BROKER: Final = 4
_RESOURCE_BROKER_LOGGER: Final = 8
_ENDPOINT_BROKERS: Final = 1
_ENDPOINT_CONTROLLERS: Final = 2


class ClientCalls:
    """Metadata, DescribeCluster, InitProducerId, configurations of this node, and lists that are empty on this node.

    Every method raises MalformedMessage for bytes that are no such request, and HangUp if no response is possible.
    """

    def __init__(self, snapshot: ClusterSnapshot, ids: OwnProducerIds) -> None:
        self._snapshot = snapshot
        self._ids = ids

    # -- the cluster ---------------------------------------------------------------------------------------------------

    @serves(ApiKey.METADATA, VersionRange(0, 12), needs=AclOperation.DESCRIBE, is_partly_relayed=True)
    async def metadata(self, request: NativeRequest) -> Answered:
        """Answer Metadata (key 3); a request that may create topics is relayed if it names unknown ones."""
        query = await decode_request(decode_metadata, request)
        if not self._snapshot.is_active:
            return Answered([await request.session.forward(request)])
        unknown = await run_in_thread_if_large(len(query.topics or ()), unknown_names, query, self._snapshot.topics)
        if query.allow_auto_creation and unknown:
            try:
                return Answered([await request.session.forward(request)])
            except HangUp as gone:
                if gone.reason is not Reason.NO_TARGET:
                    raise
        return Answered(await self._own_metadata(request, query))

    async def _own_metadata(self, request: NativeRequest, query: MetadataQuery) -> list[bytes]:
        if request.denied is not None:
            raise HangUp(Reason.NOT_AUTHORIZED, f"{request.session.principal} may not read metadata")
        view = MetadataView(self._snapshot, request.session.own, request.head.version)
        rows = await _topic_rows(view, query)
        pieces = []
        for piece in encode_metadata(request.head, view.head(query), rows):
            pieces.append(piece)
            # The topic list and each topic are immutable records, so the view is consistent throughout.
            await asyncio.sleep(0)
        return pieces

    @serves(ApiKey.DESCRIBE_CLUSTER, VersionRange(0, 1), needs=AclOperation.DESCRIBE)
    async def describe_cluster(self, request: NativeRequest) -> bytes:
        """Answer DescribeCluster (key 60) about brokers."""
        query = await decode_request(decode_describe_cluster, request)
        if request.denied is not None:
            return encode_describe_cluster_error(request.head, request.denied, "not authorized")
        if query.endpoint_type == _ENDPOINT_CONTROLLERS:
            return encode_describe_cluster_error(
                request.head, KafkaError.MISMATCHED_ENDPOINT_TYPE, "this is an endpoint for brokers"
            )
        if query.endpoint_type != _ENDPOINT_BROKERS:
            return encode_describe_cluster_error(
                request.head, KafkaError.UNSUPPORTED_ENDPOINT_TYPE, f"no endpoint type {query.endpoint_type}"
            )
        if not self._snapshot.is_active:
            return await request.session.forward(request)
        nodes = MetadataView(self._snapshot, request.session.own, 0).nodes()
        operations = CLUSTER_OPERATIONS if query.wants_operations else NO_OPERATIONS
        return encode_describe_cluster(
            request.head, self._snapshot.cluster_id, self._snapshot.node_id, nodes, operations
        )

    # -- this node as a broker without replicas ------------------------------------------------------------------------

    @serves(ApiKey.INIT_PRODUCER_ID, VersionRange(0, 5), needs=AclOperation.IDEMPOTENT_WRITE, is_partly_relayed=True)
    async def init_producer_id(self, request: NativeRequest) -> bytes:
        """Answer InitProducerId (key 22); brokers answer transactional producers."""
        query = await decode_request(decode_init_producer_id, request)
        if query.transactional_id is not None:
            return await request.session.forward(request)
        if request.denied is not None:
            return encode_init_producer_id(request.head, request.denied)
        if (query.producer_id == -1) != (query.producer_epoch == -1):
            return encode_init_producer_id(request.head, KafkaError.INVALID_REQUEST)
        taken = self._ids.take(may_allocate=self._snapshot.is_active)
        if taken is not None:
            return encode_init_producer_id(request.head, KafkaError.NONE, taken)
        if not self._snapshot.is_active:
            return await request.session.forward(request)
        return encode_init_producer_id(request.head, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)

    @serves(ApiKey.DESCRIBE_CONFIGS, VersionRange(0, 4), needs=AclOperation.DESCRIBE_CONFIGS, is_partly_relayed=True)
    @serves(ApiKey.ALTER_CONFIGS, VersionRange(0, 2), needs=AclOperation.ALTER_CONFIGS, is_partly_relayed=True)
    @serves(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, VersionRange(0, 1), needs=AclOperation.ALTER_CONFIGS, is_partly_relayed=True
    )
    async def configs(self, request: NativeRequest) -> bytes:
        """Answer requests about configurations (keys 32, 33, 44) of this node; the others are relayed."""
        resources = await decode_request(decode_config_resources, request)
        if not all(self._is_own(resource) for resource in resources):
            return await request.session.forward(request)
        error = request.denied or KafkaError.NONE
        return await run_in_thread_if_large(len(resources), encode_config_results, request.head, resources, error)

    def _is_own(self, resource: ConfigResource) -> bool:
        return resource.kind in (_RESOURCE_BROKER, _RESOURCE_BROKER_LOGGER) and resource.name == str(
            self._snapshot.node_id
        )

    @serves(ApiKey.LIST_GROUPS, VersionRange(0, 5), needs=None)
    @serves(ApiKey.DESCRIBE_LOG_DIRS, VersionRange(0, 4), needs=None)
    @serves(ApiKey.LIST_TRANSACTIONS, VersionRange(0, 1), needs=None)
    async def list_nothing(self, request: NativeRequest) -> bytes:
        """Answer requests for groups, log directories and transactions (keys 16, 35, 66): this node has none."""
        return await run_in_thread_if_large(rows_in(request), answer_nothing, request)


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
