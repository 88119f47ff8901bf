"""Rewrite the part of a page between two markers; shared by the scripts of this folder."""


def rewritten(page: str, begin: str, text: str, end: str = "<!-- /generated -->") -> str:
    """Return the page with this text between its markers. :raises ValueError: it does not have both markers."""
    head, found_begin, rest = page.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"the page has no {begin} or no {end}")
    return f"{head}{begin}\n\n{text}\n\n{end}{tail}"
