"""Numbers of things, as a sentence has them."""


def counted(number: int, thing: str) -> str:
    """``1 topic``, ``2 topics``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
