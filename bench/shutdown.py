"""The ControlledShutdown requests (version 3) of a broker, repeated until it leads no partition any more."""

from typing import Final

from bench.prepare import BenchError
from controllerd.core.model import BrokerId
from controllerd.dev.ports import LOOPBACK
from wire.connection import KafkaConnection
from wire.primitives import FLEXIBLE, INT32, INT64, Cursor
from wire.versions import ApiKey

_VERSION: Final = 3
_ATTEMPTS: Final = 10
_ANSWER_S: Final = 120.0


async def shut_down(port: int, broker: BrokerId, broker_epoch: int) -> int:
    """Send requests until no partition remains; return their number.

    :raises BenchError: a request is refused, or partitions remain after the last attempt
    """
    connection = await KafkaConnection.connect(LOOPBACK, port, str(broker), request_timeout_s=_ANSWER_S)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            body = INT32.pack(broker) + INT64.pack(broker_epoch) + FLEXIBLE.tags
            if not remaining(await connection.request(ApiKey.CONTROLLED_SHUTDOWN, _VERSION, body)):
                return attempt
    finally:
        await connection.close()
    raise BenchError(f"partitions remain after {_ATTEMPTS} attempts")


def remaining(answer: bytes) -> int:
    """Return how many partitions the broker still leads, by the body of a response.

    :raises BenchError: the response is an error
    """
    cursor = Cursor(answer, flexible=True)
    if error := cursor.int16():
        raise BenchError(f"ControlledShutdown was answered by error {error}")
    return cursor.count()
