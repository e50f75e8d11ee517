"""Keys as a person has set them, before they are put into the header of a request."""

from __future__ import annotations


def sendable(key: str) -> bool:
    """True when a header can carry the key: printable ASCII, as every provider's keys are."""
    return key.isascii() and key.isprintable()


def unsendable(variable: str) -> str:
    """What to say of a key that is not; never the key itself."""
    return (
        f"{variable} holds a character that no key has (a line break inside, or a letter that is "
        "not ASCII): copy the key again."
    )
