"""`desched backtest`: what policies would have done in the past."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.past_flags import (
    INSTEAD,
    READING_FLAGS,
    TIME_FLAGS,
    answer_cache,
    given_time,
    step_seconds,
)
from desched.cli.setting_flags import PROMETHEUS, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from desched.bootstrap.load_source import prometheus_url
    from desched.bootstrap.past import PastSource, read_past, span_of
    from desched.policy.loading import load_policy
    from desched.policy.policy import Policy
    from desched.service.process.clock import SystemClock
    from desched.service.process.logs import configure_logs
    from desched.settings import Settings
    from desched.views.policies import backtest_view, print_backtest
    from desched.views.progress import ProgressLine
    from desched.views.rendering import write_out
    from desched.whatif.figures import Backtest
    from desched.whatif.past.backtest import backtest
    from desched.whatif.past.run import Span

SHORTEST_CYCLES = 2


def run(invocation: Invocation) -> None:
    """Replay the past, and print the figures of all policies side by side."""
    flags, page, settings = invocation.flags, charts_file(invocation), invocation.settings()
    interval, step = settings.interval, step_seconds(invocation)
    begin, end = given_time(invocation, SystemClock().now())
    if end - begin < interval * SHORTEST_CYCLES:
        raise ConfigurationError(
            f"--since and --until must be at least {SHORTEST_CYCLES} intervals apart, which are "
            f"{interval.total_seconds():.0f} s each."
        )
    matchers = flags.get("kube_state_metrics", "")
    source = PastSource(matchers, step, answer_cache(invocation))
    span = span_of(begin, end, interval.total_seconds(), step)
    found = backtested(settings, _policies(invocation, settings), span, source)
    write_out(settings.output, found, print_backtest)
    if page is not None:
        from desched.views.pages.timeline_page import timeline_page  # noqa: PLC0415  (optional)

        write_page(page, timeline_page(backtest_view(found)))


def _policies(invocation: Invocation, settings: Settings) -> list[Path]:
    given = [Path(name) for name in invocation.flags.get("policies", ())]
    found = given or ([settings.policy] if settings.policy else [])
    if not found:
        raise ConfigurationError(
            "No policy is given; name one with --policy FILE (DESCHED_POLICY)."
        )
    return found


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
    past = read_past(settings, policies, span, source, clock)
    with ProgressLine("Replaying", sys.stderr, clock) as tell:
        return backtest(past, policies, span, tell)


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
        *TIME_FLAGS,
        own_flag(
            "--policy FILE",
            "A policy to replay it with; repeat the flag to compare several.",
            name="policies",
            multiple=True,
        ),
        *READING_FLAGS,
        REPORT,
    ),
    refused=INSTEAD,
)
