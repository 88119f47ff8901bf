"""The one error that the development tools raise for what the person at the keyboard can put right."""


class DevError(Exception):
    """Something that a development cluster needs is missing or did not come up; the text says what to do about it."""
