"""The flags of commands that replay the past: which time, how exactly, and what is kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from desched.cli.command import Invocation
from desched.cli.setting_flags import own_flag
from desched.errors import ConfigurationError
from desched.policy.durations import duration_seconds

LONGEST = timedelta(days=31)
STEPS_SECONDS = (60, 3600)
DEFAULT_STEP = "5m"
CACHE = "~/.cache/desched/backtest"
NOW = "now"

TIME_FLAGS = (
    own_flag("--since TIME", "When the time begins, such as 7d or 2026-11-09."),
    own_flag("--until TIME", "When it ends. Default: now."),
)
READING_FLAGS = (
    own_flag("--step DURATION", f"How exactly load is read. Default: {DEFAULT_STEP}."),
    own_flag(
        "--kube-state-metrics MATCHERS",
        "Its series, if its job has an unusual name.",
    ),
    own_flag("--cache DIRECTORY", f"Where answers are kept. Default: {CACHE}."),
    own_flag("--no-cache", "Keep no answers of Prometheus, and use none."),
)
INSTEAD = {"--from": "did you mean --since?", "--to": "did you mean --until?"}
"""Flags that are refused with a sentence of their own."""


def given_time(invocation: Invocation, now: datetime) -> tuple[datetime, datetime]:
    """The time between --since and --until.

    Raises:
        ConfigurationError: it is no time that can be replayed.
    """
    if "since" not in invocation.flags:
        raise ConfigurationError("Say with --since when the time to replay begins, such as 7d.")
    begin = point_in_time("--since", invocation.flags["since"], now)
    end = point_in_time("--until", invocation.flags.get("until", NOW), now)
    if not begin < end <= now:
        raise ConfigurationError(
            "--since must be before --until, and --until must not be in the future."
        )
    if end - begin > LONGEST:
        raise ConfigurationError(f"--since and --until may be at most {LONGEST.days} days apart.")
    return begin, end


def point_in_time(flag: str, text: str, now: datetime) -> datetime:
    """The time that a flag names; in UTC unless it has an offset.

    Raises:
        ConfigurationError: it names none.
    """
    if text == NOW:
        return now
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return now - _time_ago(flag, text)
    return at.replace(tzinfo=at.tzinfo or UTC)


def _time_ago(flag: str, text: str) -> timedelta:
    try:
        return timedelta(seconds=duration_seconds(text))
    except ValueError as error:
        raise ConfigurationError(
            f'{flag}: "{text}" is not a time; write one such as 2026-11-15, 2026-11-15T08:00 or '
            "2026-11-15T08:00+01:00, or 7d for seven days ago."
        ) from error


def step_seconds(invocation: Invocation) -> int:
    """The length of the steps in which load is read.

    Raises:
        ConfigurationError: --step is no length that can be read.
    """
    text = invocation.flags.get("step", DEFAULT_STEP)
    shortest, longest = STEPS_SECONDS
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f"--step {error}.") from error
    if not shortest <= seconds <= longest or 3600 % seconds:
        raise ConfigurationError("--step must divide an hour and be at least 1m, such as 1m or 5m.")
    return seconds


def answer_cache(invocation: Invocation) -> Path | None:
    """Where answers are kept; None: nowhere.

    Raises:
        ConfigurationError: the flags contradict each other, or the account has no home.
    """
    if "no_cache" not in invocation.flags:
        path = Path(invocation.flags.get("cache", CACHE))
    elif "cache" in invocation.flags:
        raise ConfigurationError("--cache has no effect with --no-cache; omit one of them.")
    else:
        return None
    try:
        return path.expanduser()
    except RuntimeError as error:  # this account has no home
        raise ConfigurationError("~ is unknown here; name --cache, or use --no-cache.") from error
