"""How names, counts, shares and durations are written for people."""

import unicodedata


def plain(text: str) -> str:
    """The text with control and invisible characters spelt out, so that it cannot move a cursor."""
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character).startswith("C")
        else character
        for character in text
    )


def count(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun, as `1 pod` or `2 pods`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def percent(ratio: float) -> str:
    """A share as percent without the sign, as `87.5`."""
    return f"{ratio * 100:.1f}"


def duration(seconds: int) -> str:
    """A duration in its largest whole unit, as `5m`."""
    for unit_seconds, unit in ((3600, "h"), (60, "m")):
        if seconds % unit_seconds == 0:
            return f"{seconds // unit_seconds}{unit}"
    return f"{seconds}s"
