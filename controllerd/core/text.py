"""Text for logs and answers: counts, and text from outside made safe to show."""


def counted(number: int, thing: str) -> str:
    """``1 topic``, ``2 topics``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """The text on one line, with escapes for characters that would end it, steer a terminal, or be invisible.

    Names that clients send, and the content of registrations, may be any text.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
