"""`desched backtest`: what policies would have done in the past."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

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
    from desched.bootstrap.policy_source import named_policy
    from desched.lab.comparison import backtest_view, backtests_blocks
    from desched.lab.figures import Backtest, Backtests, ClusterBacktest
    from desched.lab.past.backtest import backtest
    from desched.lab.past.replays import backtests, dask_workers, local_workers
    from desched.lab.past.run import Progress, Span
    from desched.lab.past_source import PastSource, read_past, span_of
    from desched.lab.recorded_past import Past
    from desched.policy.eviction_price import prices_minutes, with_price
    from desched.policy.policy import Policy
    from desched.policy_file.loading import load_policy, parse_policy
    from desched.service.process.clock import SystemClock
    from desched.service.process.logs import configure_logs
    from desched.settings import Settings
    from desched.views.comparison_table import comparison_blocks
    from desched.views.progress import ProgressLine
    from desched.views.rendering import write_out

SHORTEST_CYCLES = 2
HERE = ""
"""The name of the cluster if there is one."""


class Where(NamedTuple):
    """What replays: so many processes, or the workers of the Dask scheduler with this address."""

    jobs: int
    workers: str


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
    where, clusters = _where(invocation), _clusters(invocation, settings)
    matchers = flags.get("kube_state_metrics", "")
    source = PastSource(matchers, step, answer_cache(invocation))
    span = span_of(begin, end, interval.total_seconds(), step)
    policies = _policies(invocation, settings)
    replayed = backtested(clusters, policies, span, source, where)
    if HERE not in replayed:
        of_each = tuple(ClusterBacktest(*cluster) for cluster in replayed.items())
        found = Backtests(clusters=of_each)
        write_out(settings.output, found, backtests_blocks(found))
        return
    view = backtest_view(replayed[HERE])
    write_out(settings.output, replayed[HERE], comparison_blocks(view))
    if page is not None:
        from desched.views.pages.timeline_page import timeline_page  # noqa: PLC0415  (optional)

        write_page(page, timeline_page(view))


def _where(invocation: Invocation) -> Where:
    jobs, address = invocation.flags.get("jobs"), invocation.flags.get("workers", "")
    if jobs is not None and jobs < 1:
        raise ConfigurationError("--jobs must be 1 or more.")
    if jobs is not None and address:
        raise ConfigurationError("--jobs has no effect with --workers; omit it.")
    if address and not re.search(r"[^/]:\d+$", address):
        raise ConfigurationError(
            f"--workers {address}: write host and port of a Dask scheduler, such as dask:8786."
        )
    if address and find_spec("distributed") is None:
        raise ConfigurationError(
            "--workers needs Dask; install it with `pip install 'desched[workers]'`."
        )
    return Where(jobs or os.cpu_count() or 1, address)


def _clusters(invocation: Invocation, settings: Settings) -> Mapping[str, Settings]:
    """The settings for each cluster of --cluster, or for the only one."""
    settings_of: dict[str, Settings] = {}
    for text in invocation.flags.get("clusters", ()):
        name, _, url = text.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or not url:
            raise ConfigurationError(
                f'--cluster: "{text}" must be a name and an address, such as '
                "prod=http://prometheus.prod.example:9090."
            )
        if name in settings_of:
            raise ConfigurationError(f"--cluster names {name} twice; name it once.")
        settings_of[name] = settings.model_copy(update={"prometheus_url": url})
    for flag, given in (
        ("--prometheus-url", settings.prometheus_url),
        ("--report", invocation.flags.get("report")),
    ):
        if settings_of and given:
            raise ConfigurationError(f"{flag} has no effect with --cluster; omit it.")
    return settings_of or {HERE: settings}


def _policies(invocation: Invocation, settings: Settings) -> Sequence[Policy]:
    """The policies that are named, or the only one at each price of --price."""
    paths, text = _paths(invocation, settings), invocation.flags.get("price")
    prices = prices_minutes(text) if text is not None else ()
    if prices and len(paths) > 1:
        raise ConfigurationError("--price is for one policy; name one, or omit it.")
    configure_logs(settings.log_format, settings.log_level, sys.stderr)
    if not paths:
        policies = [parse_policy(*named_policy(settings, SystemClock().wait)).policy]
    else:
        policies = [load_policy(path).policy for path in paths]
    return [with_price(policies[0], price) for price in prices] or policies


def _paths(invocation: Invocation, settings: Settings) -> list[Path]:
    given = [Path(name) for name in invocation.flags.get("policies", ())]
    return given or ([settings.policy] if settings.policy else [])


def backtested(
    clusters: Mapping[str, Settings],
    policies: Sequence[Policy],
    span: Span,
    source: PastSource,
    where: Where,
) -> Mapping[str, Backtest]:
    """Read the past of each cluster, and replay it with each policy.

    Raises:
        ConfigurationError: a worker cannot be used, or the policies need different data.
        ObservationError: Prometheus could not be read, or its data does not suffice.
    """
    _check_comparable(policies, next(iter(clusters.values())))
    clock = SystemClock()
    pasts = {
        name: read_past(settings, policies, span, source, clock)
        for name, settings in clusters.items()
    }
    with ProgressLine("Replaying", sys.stderr, clock) as tell:
        return _replayed(pasts, policies, span, where, tell)


def _replayed(
    pasts: Mapping[str, Past],
    policies: Sequence[Policy],
    span: Span,
    where: Where,
    progress: Progress,
) -> Mapping[str, Backtest]:
    processes = min(where.jobs, len(pasts) * len(policies))
    if processes == 1 and not where.workers:
        results = {}
        for number, (name, past) in enumerate(pasts.items()):

            def share(done: float, number: int = number) -> None:
                progress((number + done) / len(pasts))

            results[name] = backtest(past, policies, span, share)
        return results
    with (
        dask_workers(pasts, where.workers) if where.workers else local_workers(pasts, processes)
    ) as workers:
        return backtests(workers, pasts, policies, span, progress)


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
        "desched backtest --since 7d --policy a.yaml --price 3m,5m,10m": "several prices",
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
        own_flag("--price DURATIONS", "Its evictionPrice, or several: 3m,5m,10m."),
        own_flag(
            "--cluster NAME=URL",
            "A cluster by its Prometheus; repeat it for several.",
            name="clusters",
            multiple=True,
        ),
        own_flag("--jobs NUMBER", "How many replays at a time. Default: one per core.", type=int),
        own_flag("--workers HOST:PORT", "A Dask scheduler whose workers replay."),
        *READING_FLAGS,
        REPORT,
    ),
    refused=INSTEAD,
)
