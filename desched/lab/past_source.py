"""The past of a cluster, read once for any number of replays."""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.bootstrap.load_source import LoadSource, needs_proxy, prometheus_url
from desched.lab.past.backtest import lead_seconds
from desched.lab.past.run import Span
from desched.lab.prometheus.objects import Stretch
from desched.lab.prometheus.queries import KUBE_STATE_SCOPE
from desched.lab.prometheus.reader import HowToRead, PastReader
from desched.lab.recorded_past import Past
from desched.policy.policy import Policy
from desched.service.process.clock import SystemClock
from desched.settings import Settings
from desched.views.progress import ProgressLine


class PastSource(NamedTuple):
    """Where the past comes from; `kube_state_metrics` are its matchers, "" for the usual jobs.

    Answers of Prometheus are kept in `cache`; None: nowhere.
    """

    kube_state_metrics: str = ""
    step_seconds: int = 300
    cache: Path | None = None


def read_past(
    settings: Settings,
    policies: Sequence[Policy],
    span: Span,
    source: PastSource,
    clock: SystemClock,
    progress: Callable[[float], None] | None = None,
) -> Past:
    """The span with what lies before it, as far as any window of the policies looks back.

    All policies read the same metrics. `progress` gets the share that is done; without it, a
    terminal shows it.

    Raises:
        ConfigurationError: there is no way to Prometheus.
        ObservationError: Prometheus could not be read, or its data does not suffice.
    """
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
            lambda done, of_all: (progress or tell)(done / of_all),
            source.kube_state_metrics or KUBE_STATE_SCOPE,
        )
        stretch = _stretch(policies, span, source)

        def read(connection: PrometheusConnection) -> Past:
            with closing(PastReader(connection, clock.wait, how)) as reader:
                return reader.read(policies, stretch)

        return load.read_through(policies[0], read)


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
