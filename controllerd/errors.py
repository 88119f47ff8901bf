"""The failures that have a policy. Everything else is a defect and ends the controller's term."""


class ControllerdError(Exception):
    """Base of the daemon's own errors."""


class ControllerMoved(ControllerdError):
    """Another controller holds the epoch: stop writing and sending at once, resign."""


class StoreUnavailable(ControllerdError):
    """ZooKeeper cannot be reached in this session any more (lost or expired)."""


class NoCluster(ControllerdError):
    """There is no cluster where the configuration says, so there is nothing to look at."""


class IllegalState(ControllerdError):
    """Something that cannot happen did: a defect. The term ends and everything is reloaded."""


class InvariantBroken(ControllerdError):
    """A write or a request of ours would break a rule that always holds: a defect, noticed before anything left."""

    def __init__(self, rule: str, evidence: str) -> None:
        """``rule`` is the id of the invariant, such as I-06; ``evidence`` is what would have been done."""
        super().__init__(f"{rule}: {evidence}")
        self.rule = rule
        self.evidence = evidence


class NotController(ControllerdError):
    """The answer to a call when this instance is not (or no longer) the active controller."""


class CallRefused(ControllerdError):
    """The answer to a call that cannot be granted as things are; the message says why."""


class CallFailed(ControllerdError):
    """The answer to a call whose handler failed; the cause is in the log and in the audit log."""


class BadZnode(ControllerdError):
    """A znode's content cannot be understood. It is quarantined, never overwritten."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class NewerZnode(BadZnode):
    """A znode's format is newer than ours: neither rewritten nor deleted, or what we do not know would be lost."""


class ConfigError(ControllerdError):
    """The configuration is wrong; carries every problem found, not only the first."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class RefusedToLead(ControllerdError):
    """This cluster must not be led by us (secured znodes, KRaft migration, id clash); says why and what to do."""
