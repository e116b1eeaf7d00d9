"""`desched backtest` with its parts: the past from Prometheus, policies, and the figures."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

from rich.console import Console

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.prometheus.past.objects import Stretch
from desched.adapters.prometheus.past.queries import KUBE_STATE_SCOPE
from desched.adapters.prometheus.past.reader import HowToRead
from desched.bootstrap.load_source import LoadSource, needs_proxy, prometheus_url
from desched.errors import ConfigurationError
from desched.history.past import Past
from desched.policy.loading import load_policy
from desched.policy.policy import Policy
from desched.ports import Clock
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.settings import Settings
from desched.views.backtest import print_backtest, render_backtest
from desched.views.progress import ProgressLine
from desched.views.rendering import ReportFormat
from desched.whatif.figures import Backtest
from desched.whatif.past.backtest import Span, backtest, lead_seconds


class PastSource(NamedTuple):
    """Where the past comes from; `kube_state_metrics` are its matchers, "" for the usual jobs.

    Answers of Prometheus are kept in `cache`; None: nowhere.
    """

    kube_state_metrics: str = ""
    step_seconds: int = 300
    cache: Path | None = None


def backtested(
    settings: Settings, paths: Sequence[Path], span: Span, source: PastSource, stderr: TextIO
) -> Backtest:
    """Read the past, and replay it with each policy.

    Raises:
        ConfigurationError: a policy cannot be used, or the policies need different data.
        ObservationError: Prometheus could not be read, or its data does not suffice.
    """
    configure_logs(settings.log_format, settings.log_level, stderr)
    policies = [load_policy(path).policy for path in paths]
    _check_comparable(policies, settings)
    clock = SystemClock()
    past = _read(settings, policies, _stretch(policies, span, source), source, clock, stderr)
    with ProgressLine("Replaying", stderr, clock) as tell:
        return backtest(past, policies, span, tell)


def _read(
    settings: Settings,
    policies: Sequence[Policy],
    stretch: Stretch,
    source: PastSource,
    clock: Clock,
    stderr: TextIO,
) -> Past:
    url = prometheus_url(settings, policies[0])
    # Only the way to Prometheus may need an account.
    account = None
    if needs_proxy(url) if url else policies[0].metrics.is_searched:
        account = connect(settings.kubeconfig, settings.context, clock.wait)
    load = LoadSource(settings, account, clock)
    with ProgressLine("Reading the past", stderr, clock) as tell:
        how = HowToRead(
            clock.now(),
            source.cache,
            lambda done, of_all: tell(done / of_all),
            source.kube_state_metrics or KUBE_STATE_SCOPE,
        )
        return load.read_past(policies, stretch, how)


def span_of(begin: datetime, end: datetime, interval_seconds: float, step_seconds: int) -> Span:
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
        ours, theirs = first.metrics, other.metrics
        same = (ours.matchers, ours.queries, ours.sources, ours.tenant) == (
            theirs.matchers,
            theirs.queries,
            theirs.sources,
            theirs.tenant,
        )
        if not same or _where(settings, first) != _where(settings, other):
            raise ConfigurationError(
                f"{first.source} and {other.source} read load differently; one backtest needs the "
                "same metrics in all its policies."
            )


def _where(settings: Settings, policy: Policy) -> str | tuple[str | None, str]:
    """The address of Prometheus, or the stack with its namespace."""
    metrics = policy.metrics
    return prometheus_url(settings, policy) or (metrics.stack, metrics.namespace)


def write_backtest(found: Backtest, form: ReportFormat, stdout: TextIO) -> None:
    """Write the figures to standard output."""
    if form == "table" and stdout.isatty():
        print_backtest(found, Console(file=stdout))
    else:
        stdout.write(render_backtest(found, form))
