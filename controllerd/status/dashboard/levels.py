"""How much something matters: a colour, a sign and a word, so that the colour is never all there is."""

from enum import Enum


class Level(Enum):
    """From nothing to do to act now; ``sign`` and ``word`` say the same as the colour."""

    UNKNOWN = ("unknown", "○", "not known here")
    GOOD = ("good", "✓", "fine")
    BUSY = ("busy", "↻", "under way")
    NOTE = ("busy", "•", "note")
    WARN = ("warn", "!", "look")
    BAD = ("bad", "✕", "act")

    def __init__(self, css: str, sign: str, word: str) -> None:
        self.css = css
        self.sign = sign
        self.word = word

    @property
    def rank(self) -> int:
        """The worst is the largest."""
        return list(Level).index(self)
