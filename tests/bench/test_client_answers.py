"""The answers of the stubs to clients are those of a broker: they can be decoded and describe the prepared cluster."""

from bench import client_answers, layout
from controllerd.core.model import BrokerId
from wire.api_broker_settings import decode_settings
from wire.metadata import EncodedMetadata, walk_topics


def test_metadata_names_every_partition_with_its_leader_and_replicas() -> None:
    body = client_answers.metadata(2 * layout.TOPIC_PARTITIONS, {BrokerId(1): 9092}, "localhost")

    topics = [topic for topic in walk_topics(EncodedMetadata(12, body)) if topic is not None]

    assert [(topic.name, topic.topic_id) for topic in topics] == [
        (name, layout.topic_id(name)) for name in (layout.name(layout.OLD, 0), layout.name(layout.OLD, 1))
    ]
    seventh = topics[1].partitions[7]
    assert (seventh.leader, seventh.leader_epoch, seventh.replicas) == (layout.replicas(7)[0], 0, layout.replicas(7))
    assert {len(topic.partitions) for topic in topics} == {layout.TOPIC_PARTITIONS}


def test_the_settings_have_min_insync_replicas() -> None:
    assert decode_settings(client_answers.settings())["min.insync.replicas"].value == "1"
