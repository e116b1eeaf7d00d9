"""Takes credentials out of what servers say: an error may repeat the request that it is about."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress

HIDDEN = "***"
SHORTEST = 4  # characters; what is shorter protects nothing and stands in many words


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with the secrets hidden, also where they stand percent-encoded or in base64.

    Servers differ in what they encode, and in the case of its hexadecimal digits.
    """
    for form in sorted({f for s in secrets for f in _forms(s)}, key=len, reverse=True):
        text = re.sub("".join(map(_spellings, form)), HIDDEN, text)
    return text


def credentials_in(header: str) -> Iterator[str]:
    """What may be secret in the value of a header such as Authorization or Cookie."""
    scheme, _, value = header.strip().rpartition(" ")
    yield header.strip()
    yield value
    yield header.partition("=")[2]
    if scheme.lower() == "basic":
        with suppress(ValueError):  # then it is no pair of a name and a password
            yield b64decode(value, validate=True).decode().partition(":")[2]


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < SHORTEST:
        return
    yield secret
    yield b64encode(secret.encode()).decode().rstrip("=")


def _spellings(character: str) -> str:
    """A pattern for one character as it is, percent-encoded, or as forms write a space."""
    if character.isascii() and character.isalnum():  # nobody encodes these
        return character
    encoded = "".join(f"%{byte:02X}" for byte in character.encode())
    plain = "[ +]" if character == " " else re.escape(character)
    return f"(?:{plain}|(?i:{encoded}))"
