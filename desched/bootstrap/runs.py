"""One run of desched, from settings to the end: a single cycle, or a service."""

from collections.abc import Iterator
from contextlib import suppress
from signal import Signals
from typing import NamedTuple, TextIO

import structlog
from rich.console import Console

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.events import EventWriter
from desched.bootstrap.election import contended, contender, wait_for_lease
from desched.bootstrap.process import Intent, Process
from desched.cycle import CycleInfo
from desched.errors import ConfigurationError, ObservationError
from desched.model.cluster import PodRef
from desched.model.plan import HoldReason
from desched.model.report import CycleReport, Mode
from desched.policy.loading import load_policy
from desched.service.cycles.loop import ServiceLoop
from desched.service.cycles.runner import CycleRunner, PolicyListener, ReportSink
from desched.service.cycles.schedule import Schedule, cron, every, time_zone
from desched.service.election.leadership import Leadership, own_identity
from desched.service.inputs.policy_file import PolicyFile, PolicyReading, log_policy
from desched.service.process.clock import SystemClock
from desched.service.process.health import Health
from desched.service.process.http_endpoints import listen_address, served
from desched.service.process.logs import configure_logs
from desched.service.process.signals import stopped_by_signals
from desched.service.reports.cycle_table import print_report
from desched.service.reports.rendering import render_report
from desched.service.telemetry.cycle_log import CompetitorLog, log_cycle
from desched.service.telemetry.kubernetes_events import EventPublisher
from desched.service.telemetry.metrics import ServiceMetrics
from desched.service.telemetry.status_endpoint import StatusEndpoint
from desched.settings import Settings, flag_of, variable_of

LISTEN_IN_CLUSTER = ":10258"
LISTEN_OUTSIDE = "127.0.0.1:10258"
LONGEST_BETWEEN_CRON_CYCLES_SECONDS = 3600.0
"""How long a soft taint lasts where cycles run by cron, which may leave long times between them."""
STOPPING = "desched: Stopping once the request under way ends; a second signal ends at once.\n"
LOAD_UNKNOWN = frozenset(
    {
        HoldReason.TOO_MANY_UNKNOWN_NODES,
        HoldReason.NO_NODE_IN_SCOPE,
        HoldReason.PARTIAL_DATA,
        HoldReason.SEVERAL_CLUSTERS,
        HoldReason.CLOCKS_DIFFER,
    }
)
"""Holds after which nobody knows whether a node is overloaded: a script must not take them for
an answer."""

_log = structlog.get_logger(__name__)


class Ending(NamedTuple):
    """How a run ended that met no error.

    `cut_short_by` ended a single cycle before its report; `load_unknown` is true where a single
    cycle was held because the load could not be known.
    """

    cut_short_by: Signals | None = None
    load_unknown: bool = False


def run(settings: Settings, stdout: TextIO, stderr: TextIO) -> Ending:
    """Run one cycle, or cycles until a signal, as the settings say.

    Raises:
        ConfigurationError: a person has to change something.
        ObservationError: the only cycle could not see the cluster or its load.
    """
    quiet = not settings.loops and not settings.given("log_level")
    configure_logs(settings.log_format, "warning" if quiet else settings.log_level, stderr)
    _check(settings)
    policy_file = _policy_file(settings)
    clock = SystemClock()

    def stop() -> None:
        clock.stop()
        if not settings.loops:
            with suppress(RuntimeError):  # the signal came in the middle of another write
                stderr.write(STOPPING)

    with stopped_by_signals(stop) as stop_request:
        try:
            return _run(settings, policy_file, clock, stdout, stderr)
        except ObservationError:
            if stop_request.received is None:
                raise
            return Ending() if settings.loops else Ending(cut_short_by=stop_request.received)


def _check(settings: Settings) -> None:
    """Refuse settings that are of no use before anything is asked for."""
    schedule_of(settings)
    if settings.listen_address is not None:
        listen_address(settings.listen_address)


def _run(
    settings: Settings, policy_file: PolicyFile, clock: SystemClock, stdout: TextIO, stderr: TextIO
) -> Ending:
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    intent = intent_of(settings, in_cluster=kubernetes.in_cluster, target=kubernetes.target)
    if not kubernetes.in_cluster and _prints_notice(settings, intent, stderr):
        stderr.write(f"desched: {intent.notice}\n")
        intent = intent._replace(notice="")
    identity = own_identity(settings.pod_name)
    process = Process(
        settings,
        kubernetes,
        clock,
        intent,
        identity,
        contender(settings, kubernetes, intent.mode, identity, clock),
        EventWriter(kubernetes, clock, settings.pod_name or "desched"),
        ServiceMetrics(intent.mode),
    )
    runner = CycleRunner(
        process.world(),
        policy_file,
        process.state(),
        CycleInfo(0, intent.mode, kubernetes.target, identity, _taints_last_seconds(settings)),
    )
    runner.on_policy(log_policy)
    runner.on_report(*_report_sinks(settings, stdout, stderr))
    if settings.loops:
        _serve(runner, process)
        return Ending()
    with contended(process.leadership):
        if process.leadership is not None:
            wait_for_lease(process.leadership, settings, clock)
        return Ending(load_unknown=runner.run().plan.hold in LOAD_UNKNOWN)


def _taints_last_seconds(settings: Settings) -> float:
    """Two cycles: the next one renews what it still needs."""
    if settings.cron is not None:
        return LONGEST_BETWEEN_CRON_CYCLES_SECONDS
    return 2 * settings.interval.total_seconds()


def intent_of(settings: Settings, *, in_cluster: bool, target: str) -> Intent:
    """Whether to evict: in a cluster unless told not to, outside only if told to."""
    if settings.dry_run:
        return Intent(Mode.DRY_RUN, f"Dry run against {target}: nothing is evicted.")
    if in_cluster or settings.evict:
        return Intent(Mode.EVICT, f"Evicting pods in {target}.")
    return Intent(
        Mode.DRY_RUN,
        f"Dry run against {target}: nothing is evicted, because desched runs outside a cluster "
        "and --evict was not given.",
    )


def _prints_notice(settings: Settings, intent: Intent, stderr: TextIO) -> bool:
    """Whether the notice is a message of its own; else the log of the service has it."""
    hidden = settings.log_level in {"warning", "error"} and intent.mode is Mode.EVICT
    return hidden or stderr.isatty() or not settings.loops


def schedule_of(settings: Settings) -> Schedule:
    """When cycles run.

    Raises:
        ConfigurationError: the cron expression or the time zone cannot be understood.
    """
    if settings.cron is None:
        return every(round(settings.interval.total_seconds()))
    for name, check in (
        ("timezone", lambda: time_zone(settings.timezone)),
        ("cron", lambda: cron(settings.cron or "", settings.timezone)),
    ):
        try:
            check()
        except ConfigurationError as error:
            raise ConfigurationError(f"{flag_of(name)} ({variable_of(name)}): {error}") from error
    return cron(settings.cron, settings.timezone)


def _serve(runner: CycleRunner, process: Process) -> None:
    settings, clock, mode = process.settings, process.clock, process.intent.mode
    schedule = schedule_of(settings)
    default_address = LISTEN_IN_CLUSTER if process.kubernetes.in_cluster else LISTEN_OUTSIDE
    address = listen_address(settings.listen_address or default_address)
    metrics, leadership = process.metrics, process.leadership
    health = Health(clock.monotonic, settings.cycle_deadline.total_seconds())
    page = StatusEndpoint(process.identity, mode)
    runner.on_report(
        metrics.cycle_completed,
        page.cycle_completed,
        CompetitorLog().publish,
        EventPublisher(process.events, process.own_pod).publish,
    )
    runner.on_policy(metrics.policy_read, _policy_events(process.own_pod, process.events))
    if leadership is not None:
        _show_leadership(leadership, metrics, page)
    with served(address, health, metrics.exposition, page.document) as bound:
        notice = {"notice": process.intent.notice} if process.intent.notice else {}
        _log.info(
            "service.started", **notice, mode=mode.value, schedule=schedule.text, port=bound.port
        )
        with contended(leadership):
            ServiceLoop(runner.run, schedule, clock, health, metrics, leadership).run()
    _log.info("service.stopped")


def _show_leadership(leadership: Leadership, metrics: ServiceMetrics, page: StatusEndpoint) -> None:
    def show(*, leading: bool) -> None:
        metrics.leadership_changed(leading=leading)
        page.leadership_changed(leading=leading)

    show(leading=False)
    leadership.on_change(lambda change: show(leading=change.leading))


def _report_sinks(settings: Settings, stdout: TextIO, stderr: TextIO) -> Iterator[ReportSink]:
    """Who is told of a cycle: the log of a service, and standard output if somebody reads it."""
    if not settings.loops:
        yield _printer(settings, stdout)
        return
    prints = settings.output is not None or stdout.isatty()
    as_table = prints and settings.output in {None, "table"}
    if not (as_table and stdout.isatty() and stderr.isatty()):
        yield log_cycle  # else its line would stand among the tables and repeat them
    if prints:
        yield _printer(settings, stdout)


def _printer(settings: Settings, stdout: TextIO) -> ReportSink:
    form = settings.output or "table"

    def write(report: CycleReport) -> None:
        if form == "table" and stdout.isatty():
            print_report(report, Console(file=stdout), single=not settings.loops)
            return
        separator = "---\n" if form == "yaml" and settings.loops else ""
        stdout.write(separator + render_report(report, form, single=not settings.loops))
        stdout.flush()

    return write


def _policy_events(own_pod: PodRef | None, events: EventWriter) -> PolicyListener:
    """Leaves an Event on desched's own pod for each refused edit, if the pod is known."""

    def announce(reading: PolicyReading) -> None:
        if own_pod is not None and reading.news and reading.problem:
            events.warn_on_self(own_pod.name, own_pod.namespace, "PolicyRefused", reading.problem)

    return announce


def _policy_file(settings: Settings) -> PolicyFile:
    """The policy file, looked at once: a bad one is refused before anything runs."""
    path = settings.policy
    if path is None:
        raise ConfigurationError(
            "There is no policy to act by; name one with --policy FILE (DESCHED_POLICY). "
            "Examples to start from: policies/cautious.yaml and policies/volcano-published.yaml."
        )
    policy_file = PolicyFile(lambda: load_policy(path))
    policy_file.read()
    return policy_file
