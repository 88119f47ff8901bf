"""Text from outside as it may stand before people."""


def visible(text: str) -> str:
    """The same on one line, with escapes for whatever would end the line, steer a terminal, or not be seen.

    Names that clients send, and what registrations of brokers hold, may be anything.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
