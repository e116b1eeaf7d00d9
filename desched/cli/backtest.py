"""`desched backtest`: what policies would have done in the past."""

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from desched.cli.command import Command, Invocation, Usage
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import PROMETHEUS, own_flag
from desched.cli.times import NOW, point_in_time
from desched.errors import ConfigurationError

if TYPE_CHECKING:
    from desched.settings import Settings

LONGEST = timedelta(days=31)
SHORTEST_CYCLES = 2
STEPS_SECONDS = (60, 3600)
DEFAULT_STEP = "5m"
CACHE = "~/.cache/desched/backtest"


def run(invocation: Invocation) -> None:
    """Replay the past, and print the figures of all policies side by side."""
    from desched.bootstrap.backtest import PastSource, backtested, span_of, write_backtest
    from desched.service.process.clock import SystemClock
    from desched.views.pages.backtest_page import backtest_page

    flags, page, settings = invocation.flags, charts_file(invocation), invocation.settings()
    begin, end = _between(invocation, SystemClock().now())
    interval, step = settings.interval, _step_seconds(flags.get("step", DEFAULT_STEP))
    if end - begin < interval * SHORTEST_CYCLES:
        raise ConfigurationError(
            f"--since and --until must be at least {SHORTEST_CYCLES} intervals apart, which are "
            f"{interval.total_seconds():.0f} s each."
        )
    source = PastSource(flags.get("kube_state_metrics", ""), step, _cache(invocation))
    span = span_of(begin, end, interval.total_seconds(), step)
    found = backtested(settings, _policies(invocation, settings), span, source, sys.stderr)
    write_backtest(found, settings.output or "table", sys.stdout)
    if page is not None:
        write_page(page, backtest_page(found))


def _cache(invocation: Invocation) -> Path | None:
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


def _policies(invocation: Invocation, settings: "Settings") -> list[Path]:
    given = [Path(name) for name in invocation.flags.get("policies", ())]
    found = given or ([settings.policy] if settings.policy else [])
    if not found:
        raise ConfigurationError(
            "No policy is given; name one with --policy FILE (DESCHED_POLICY)."
        )
    return found


def _between(invocation: Invocation, now: datetime) -> tuple[datetime, datetime]:
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


def _step_seconds(text: str) -> int:
    from desched.policy.durations import duration_seconds

    shortest, longest = STEPS_SECONDS
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f"--step {error}.") from error
    if not shortest <= seconds <= longest or 3600 % seconds:
        raise ConfigurationError("--step must divide an hour and be at least 1m, such as 1m or 5m.")
    return seconds


COMMAND = Command(
    "backtest",
    run,
    Usage(
        details="It reads from Prometheus which pod ran where, what it requested and what it "
        "used, lets that time pass again in a simulated cluster with each policy, and compares "
        "the results with what really happened. It needs kube-state-metrics, and changes nothing.",
        examples={
            "desched backtest --since 7d --policy a.yaml --policy b.yaml": "compare two policies",
            "desched backtest --since 2026-11-09 --until 2026-11-16 --policy a.yaml": "one week",
        },
        settings=("output", "interval", "kubeconfig", "context", *PROMETHEUS),
        parameters=(
            own_flag(
                "--since", "TIME", "When the time to replay begins, such as 7d or 2026-11-09."
            ),
            own_flag("--until", "TIME", "When it ends. Default: now."),
            own_flag(
                "--policy",
                "FILE",
                "A policy to replay it with; repeat the flag to compare several.",
                names=("policies",),
                multiple=True,
            ),
            own_flag(
                "--step",
                "DURATION",
                f"How exactly load is read. Default: {DEFAULT_STEP}.",
            ),
            own_flag(
                "--kube-state-metrics",
                "MATCHERS",
                "Which series are those of kube-state-metrics, if its job has an unusual name.",
            ),
            own_flag(
                "--cache",
                "DIRECTORY",
                "Where answers of Prometheus are kept, so that an interrupted or repeated backtest "
                f"asks less. Default: {CACHE}.",
            ),
            own_flag("--no-cache", "", "Keep no answers of Prometheus, and use none."),
            REPORT,
        ),
        refused={"--from": "did you mean --since?", "--to": "did you mean --until?"},
    ),
)
