"""The failures of a Kafka connection, distinguished because each has its own reaction."""

from controllerd.errors import ControllerdError


class WireError(ControllerdError):
    """Base of every failure of a connection or of the bytes on it. The connection is not usable afterwards."""


class NegativeFrame(WireError):
    """The peer announced a frame of negative size: it does not speak the Kafka protocol."""


class FrameTooLarge(WireError):
    """The peer announced a frame beyond the limit. Often it is TLS or HTTP on a plaintext port."""


class TruncatedFrame(WireError):
    """The connection ended inside a frame."""


class PeerClosed(WireError):
    """The peer closed the connection where an answer was due."""


class HeldBack(WireError):
    """Part of a request has left, and the rest may not: the process slept, or the session is suspended."""


class MalformedMessage(WireError):
    """The bytes of a message do not follow its schema."""


class CorrelationMismatch(WireError):
    """An answer carries another correlation id than the request that waits."""


class UnknownApi(WireError):
    """No schema is known for this API key and version."""


class UnsupportedByPeer(WireError):
    """The peer and we share no version of this API."""
