"""Which control requests a broker lets in at all: the checks before any partition is looked at (KIP-380)."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH


class ControlGate:
    """The epochs that fence control requests.

    The highest controller epoch is kept in memory only, so after a restart a broker believes any controller first.
    """

    def __init__(self) -> None:
        self.broker_epoch = NO_EPOCH
        """The czxid of our registration, -1 before the first."""
        self.controller_epoch = 0

    def admit(self, broker_epoch: int, controller_epoch: int, *, is_kraft_controller: bool) -> KafkaError:
        """Whether a request passes; one that does sets the controller epoch below which none passes any more.

        A broker epoch above ours passes: we may learn late that we were registered again. -1 is not checked.
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
