"""Decoding and encoding of znodes: the contents that Kafka writes under its paths, one function for each direction.

Every ``decode_*`` raises ``BadZnode`` with the path and a precise reason, and its subclass ``NewerZnode`` for a format
that is newer than ours.
"""

from controllerd.zk.formats.cluster import (
    ControllerZnode,
    FeatureZnode,
    FinalizedFeature,
    ProducerIdBlockZnode,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_feature,
    decode_producer_id_block,
    encode_cluster_id,
    encode_controller,
    encode_controller_epoch,
    encode_feature,
    encode_producer_id_block,
)
from controllerd.zk.formats.configs import (
    config_extra,
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from controllerd.zk.formats.intents import decode_pauses, decode_throttle, encode_pauses, encode_throttle
from controllerd.zk.formats.pending_deletions import decode_pending_deletions, encode_pending_deletions
from controllerd.zk.formats.registrations import (
    decode_broker,
    decode_controller_registration,
    encode_broker,
    encode_controller_registration,
)
from controllerd.zk.formats.requests import (
    DELETE_MARKER,
    decode_isr_change,
    decode_log_dir_event,
    decode_preferred_election,
    decode_reassignments,
    encode_isr_change,
    encode_log_dir_event,
    encode_preferred_election,
    encode_reassignments,
)
from controllerd.zk.formats.states import decode_plain_state, decode_state, encode_state, state_extra
from controllerd.zk.formats.tokens import decode_token, encode_token_change
from controllerd.zk.formats.topics import decode_topic, encode_topic, is_topic_id

__all__ = [
    "DELETE_MARKER",
    "ControllerZnode",
    "FeatureZnode",
    "FinalizedFeature",
    "ProducerIdBlockZnode",
    "config_extra",
    "decode_broker",
    "decode_cluster_id",
    "decode_config",
    "decode_config_change",
    "decode_controller",
    "decode_controller_epoch",
    "decode_controller_registration",
    "decode_feature",
    "decode_isr_change",
    "decode_log_dir_event",
    "decode_pauses",
    "decode_pending_deletions",
    "decode_plain_state",
    "decode_preferred_election",
    "decode_producer_id_block",
    "decode_reassignments",
    "decode_state",
    "decode_throttle",
    "decode_token",
    "decode_topic",
    "encode_broker",
    "encode_cluster_id",
    "encode_config",
    "encode_config_change",
    "encode_controller",
    "encode_controller_epoch",
    "encode_controller_registration",
    "encode_feature",
    "encode_isr_change",
    "encode_log_dir_event",
    "encode_pauses",
    "encode_pending_deletions",
    "encode_preferred_election",
    "encode_producer_id_block",
    "encode_reassignments",
    "encode_state",
    "encode_throttle",
    "encode_token_change",
    "encode_topic",
    "is_topic_id",
    "state_extra",
]
