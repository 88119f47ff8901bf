"""The checks of epochs that a broker makes before it applies a control request (KIP-380)."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH


class ControlGate:
    """The epochs that fence control requests.

    The highest controller epoch is kept in memory only, so a broker accepts the first controller after a restart.
    """

    def __init__(self) -> None:
        self.broker_epoch = NO_EPOCH
        """The czxid of the registration of this broker, -1 before the first."""
        self.controller_epoch = 0

    def admit(self, broker_epoch: int, controller_epoch: int, *, is_kraft_controller: bool) -> KafkaError:
        """Check a request. An accepted one sets the controller epoch below which later requests are refused.

        A broker epoch above ours is accepted, because this broker may learn of its new registration later than the
        controller does. -1 is not checked.
        """
        if broker_epoch != NO_EPOCH:
            if is_kraft_controller:
                return KafkaError.UNKNOWN_SERVER_ERROR
            if broker_epoch < self.broker_epoch:
                return KafkaError.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return KafkaError.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return KafkaError.NONE
