"""`desched backtest`: what policies would have done in the past."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import PROMETHEUS, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from desched.adapters.kubernetes.client.connection import connect
    from desched.adapters.prometheus.past.objects import Stretch
    from desched.adapters.prometheus.past.queries import KUBE_STATE_SCOPE
    from desched.adapters.prometheus.past.reader import HowToRead
    from desched.bootstrap.load_source import LoadSource, needs_proxy, prometheus_url
    from desched.bootstrap.output import write_out
    from desched.history.past import Past
    from desched.policy.durations import duration_seconds
    from desched.policy.loading import load_policy
    from desched.policy.policy import Policy
    from desched.service.process.clock import SystemClock
    from desched.service.process.logs import configure_logs
    from desched.settings import Settings
    from desched.views.policies import backtest_view, print_backtest
    from desched.views.progress import ProgressLine
    from desched.whatif.figures import Backtest
    from desched.whatif.past.backtest import backtest, lead_seconds
    from desched.whatif.past.run import Span

LONGEST = timedelta(days=31)
SHORTEST_CYCLES = 2
STEPS_SECONDS = (60, 3600)
DEFAULT_STEP = "5m"
CACHE = "~/.cache/desched/backtest"
NOW = "now"


class PastSource(NamedTuple):
    """Where the past comes from; `kube_state_metrics` are its matchers, "" for the usual jobs.

    Answers of Prometheus are kept in `cache`; None: nowhere.
    """

    kube_state_metrics: str = ""
    step_seconds: int = 300
    cache: Path | None = None


def run(invocation: Invocation) -> None:
    """Replay the past, and print the figures of all policies side by side."""
    flags, page, settings = invocation.flags, charts_file(invocation), invocation.settings()
    begin, end = _between(invocation, SystemClock().now())
    interval, step = settings.interval, _step_seconds(flags.get("step", DEFAULT_STEP))
    if end - begin < interval * SHORTEST_CYCLES:
        raise ConfigurationError(
            f"--since and --until must be at least {SHORTEST_CYCLES} intervals apart, which are "
            f"{interval.total_seconds():.0f} s each."
        )
    source = PastSource(flags.get("kube_state_metrics", ""), step, _cache(invocation))
    span = _span_of(begin, end, interval.total_seconds(), step)
    found = backtested(settings, _policies(invocation, settings), span, source)
    write_out(settings.output, found, print_backtest)
    if page is not None:
        from desched.views.pages.timeline_page import timeline_page  # noqa: PLC0415  (optional)

        write_page(page, timeline_page(backtest_view(found)))


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


def _policies(invocation: Invocation, settings: Settings) -> list[Path]:
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
    shortest, longest = STEPS_SECONDS
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f"--step {error}.") from error
    if not shortest <= seconds <= longest or 3600 % seconds:
        raise ConfigurationError("--step must divide an hour and be at least 1m, such as 1m or 5m.")
    return seconds


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


def backtested(
    settings: Settings, paths: Sequence[Path], span: Span, source: PastSource
) -> Backtest:
    """Read the past, and replay it with each policy.

    Raises:
        ConfigurationError: a policy cannot be used, or the policies need different data.
        ObservationError: Prometheus could not be read, or its data does not suffice.
    """
    configure_logs(settings.log_format, settings.log_level, sys.stderr)
    policies = [load_policy(path).policy for path in paths]
    _check_comparable(policies, settings)
    clock = SystemClock()
    past = _read(settings, policies, _stretch(policies, span, source), source, clock)
    with ProgressLine("Replaying", sys.stderr, clock) as tell:
        return backtest(past, policies, span, tell)


def _read(
    settings: Settings,
    policies: Sequence[Policy],
    stretch: Stretch,
    source: PastSource,
    clock: SystemClock,
) -> Past:
    url = prometheus_url(settings, policies[0])
    # Only the way to Prometheus may need an account.
    account = None
    if needs_proxy(url) if url else policies[0].metrics.is_searched:
        account = connect(settings.kubeconfig, settings.context, clock.wait)
    load = LoadSource(settings, account, clock)
    with ProgressLine("Reading the past", sys.stderr, clock) as tell:
        how = HowToRead(
            clock.now(),
            source.cache,
            lambda done, of_all: tell(done / of_all),
            source.kube_state_metrics or KUBE_STATE_SCOPE,
        )
        return load.read_past(policies, stretch, how)


def _span_of(begin: datetime, end: datetime, interval_seconds: float, step_seconds: int) -> Span:
    """The time between two others in whole steps."""
    first, last = (int(at.timestamp()) // step_seconds * step_seconds for at in (begin, end))
    return Span(
        datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC), interval_seconds
    )


def _stretch(policies: Sequence[Policy], span: Span, source: PastSource) -> Stretch:
    step = source.step_seconds
    lead = -(-lead_seconds(policies) // step) * step
    begin, end = (int(at.timestamp()) for at in (span.started_at, span.ended_at))
    return Stretch(begin - lead, end, step)


def _check_comparable(policies: Sequence[Policy], settings: Settings) -> None:
    names = [policy.source for policy in policies]
    if len(set(names)) < len(names):
        raise ConfigurationError("Name each policy once; two runs of one policy are equal.")
    first, *others = policies
    for other in others:
        if _what_is_read(settings, first) != _what_is_read(settings, other):
            raise ConfigurationError(
                f"{first.source} and {other.source} read load differently; one backtest needs the "
                "same metrics in all its policies."
            )


def _what_is_read(settings: Settings, policy: Policy) -> tuple[object, ...]:
    metrics = policy.metrics
    where = prometheus_url(settings, policy) or (metrics.stack, metrics.namespace)
    return where, metrics.matchers, metrics.queries, metrics.sources, metrics.tenant


COMMAND = Command(
    "backtest",
    details="It reads from Prometheus which pod ran where, what it requested and what it "
    "used, lets that time pass again in a simulated cluster with each policy, and compares "
    "the results with what really happened. It needs kube-state-metrics, and changes nothing.",
    examples={
        "desched backtest --since 7d --policy a.yaml --policy b.yaml": "compare two policies",
        "desched backtest --since 2026-11-09 --until 2026-11-16 --policy a.yaml": "one week",
    },
    settings=("output", "interval", "kubeconfig", "context", *PROMETHEUS),
    parameters=(
        own_flag("--since TIME", "When the time to replay begins, such as 7d or 2026-11-09."),
        own_flag("--until TIME", "When it ends. Default: now."),
        own_flag(
            "--policy FILE",
            "A policy to replay it with; repeat the flag to compare several.",
            name="policies",
            multiple=True,
        ),
        own_flag(
            "--step DURATION",
            f"How exactly load is read. Default: {DEFAULT_STEP}.",
        ),
        own_flag(
            "--kube-state-metrics MATCHERS",
            "Which series are those of kube-state-metrics, if its job has an unusual name.",
        ),
        own_flag(
            "--cache DIRECTORY",
            "Where answers of Prometheus are kept, so that an interrupted or repeated backtest "
            f"asks less. Default: {CACHE}.",
        ),
        own_flag("--no-cache", "Keep no answers of Prometheus, and use none."),
        REPORT,
    ),
    refused={"--from": "did you mean --since?", "--to": "did you mean --until?"},
)
