"""The exit codes that many commands share, with their text on standard error."""

from typing import Final

COMMON: Final = {0: "", 2: "No such option", 74: "No space left on device"}
"""Of every command."""
OF_DAEMONS: Final = {
    69: "no daemon answers",
    70: "it is not to be (no)",
    77: "give a token",
    124: "--timeout waits longer",
    130: "",
}
"""Of those that ask a daemon."""
OF_CHANGES: Final = {4: "leads", 7: "repeat with --yes", 8: "expects another"}
"""Of those that change something, too."""
