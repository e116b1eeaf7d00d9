"""How names, counts, shares and durations are written for people."""

from desched.model.text import on_one_line


def plain(text: str) -> str:
    """The text on one line, so that it cannot move a cursor, turn letters round or forge a line."""
    return on_one_line(text)


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
