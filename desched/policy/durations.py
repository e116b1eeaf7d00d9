"""Durations as Kubernetes configuration writes them: `90s`, `5m`, `1h30m`; also `7d` and `1w`."""

import re
from decimal import Decimal

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)")
_WORDED = re.compile(r" *([0-9]{1,9}) *(s|m|h|d|w)(ec|in|our|r|ay|eek)?[a-z]* *", re.IGNORECASE)
_EXAMPLES = 'for example "90s", "5m" or "1h30m"'
_SECONDS_PER_UNIT = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),  # U+00B5, micro sign
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86_400),
    "w": Decimal(604_800),
}
_LONGEST_TEXT = 64
LONGEST_SECONDS = 10 * 366 * 24 * 3600
"""No duration in a policy means anything beyond ten years."""


def duration_seconds(text: str) -> int:
    """The whole seconds of a Go duration, or of one with days and weeks as Prometheus has them.

    Raises:
        ValueError: its text names the problem, as the end of a sentence.
    """
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise ValueError(f'has no unit; write "{text}s" for seconds or "{text}m" for minutes')
    parts = _PART.findall(text) if len(text) <= _LONGEST_TEXT else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        meant = _WORDED.fullmatch(text)
        example = f'"{meant[1]}{meant[2].lower()}"' if meant else _EXAMPLES
        raise ValueError(f"is not a duration; write {example}")
    seconds = sum((Decimal(n) * _SECONDS_PER_UNIT[unit] for n, unit in parts), Decimal(0))
    if seconds > LONGEST_SECONDS:
        raise ValueError("is longer than ten years")
    if seconds != int(seconds):
        raise ValueError("is not a whole number of seconds")
    return int(seconds)


def duration_text(seconds: int) -> str:
    """The shortest way to write so many seconds, such as `5m` or `1h30m`."""
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (left, "s")) if n]
    return "".join(parts) or "0s"
