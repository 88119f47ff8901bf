"""The errors that the daemon handles in a defined way. Any other exception is a defect and ends the term."""


class ControllerdError(Exception):
    """Base of the daemon's own errors."""


class ControllerMoved(ControllerdError):
    """Another controller holds the epoch: stop writing and sending at once, resign."""


class StoreUnavailable(ControllerdError):
    """ZooKeeper cannot be reached in this session any more (lost or expired)."""


class NoCluster(ControllerdError):
    """There is no cluster at the configured ``zookeeper.connect``."""


class IllegalState(ControllerdError):
    """The code reached an impossible state, which is a defect. The term ends and all state is reloaded."""


class InvariantBroken(ControllerdError):
    """A write or request of this controller would break an invariant: a defect, found before it was sent."""

    def __init__(self, rule: str, evidence: str) -> None:
        """``rule`` is the id of the invariant, such as I-06; ``evidence`` describes the violation."""
        super().__init__(f"{rule}: {evidence}")
        self.rule = rule
        self.evidence = evidence


class NotController(ControllerdError):
    """The answer to a call when this instance is not (or no longer) the active controller."""


class CallRefused(ControllerdError):
    """The answer to a call that cannot be granted in the current state; the message has the reason."""


class CallFailed(ControllerdError):
    """The answer to a call whose handler failed; the cause is in the log and in the audit log."""


class BadZnode(ControllerdError):
    """The content of a znode is unreadable. The znode is put in quarantine and never overwritten."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class NewerZnode(BadZnode):
    """The format of a znode is newer than this version. It is neither rewritten nor deleted, to keep unknown fields."""


class ConfigError(ControllerdError):
    """The configuration is invalid; ``problems`` has every problem found."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class RefusedToLead(ControllerdError):
    """This instance must not lead this cluster (secured znodes, KRaft migration, id clash). Has cause and remedy."""
