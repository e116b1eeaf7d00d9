"""Removes credentials from the text of servers: an error may repeat the request."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress

HIDDEN = "***"
SHORTEST = 4  # characters; shorter secrets protect nothing and occur in many words


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with the secrets hidden, whether plain, percent-encoded or in base64.

    Servers differ in which characters they encode, and in the case of hexadecimal digits.
    """
    for form in sorted({f for s in secrets for f in _forms(s)}, key=len, reverse=True):
        text = re.sub("".join(map(_spellings, form)), HIDDEN, text)
    return text


def credentials_in(header: str) -> Iterator[str]:
    """The parts of a header such as Authorization or Cookie that may be secret."""
    scheme, _, value = header.strip().rpartition(" ")
    yield header.strip()
    yield value
    yield header.partition("=")[2]
    if scheme.lower() == "basic":
        with suppress(ValueError):  # then it is not a name and a password
            yield b64decode(value, validate=True).decode().partition(":")[2]


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < SHORTEST:
        return
    yield secret
    yield b64encode(secret.encode()).decode().rstrip("=")


def _spellings(character: str) -> str:
    """A pattern for one character: plain, percent-encoded, or a space as + in forms."""
    if character.isascii() and character.isalnum():  # never encoded
        return character
    encoded = "".join(f"%{byte:02X}" for byte in character.encode())
    plain = "[ +]" if character == " " else re.escape(character)
    return f"(?:{plain}|(?i:{encoded}))"
