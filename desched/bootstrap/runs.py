"""One run of desched, from settings to the end: a single cycle, or a service."""

from typing import NamedTuple, TextIO

import structlog
from rich.console import Console

from desched.adapters.kubernetes.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.adapters.kubernetes.reader import KubernetesReader
from desched.bootstrap.load_source import LoadSource
from desched.errors import ConfigurationError, ObservationError
from desched.model.report import CycleReport, Mode
from desched.policy.loading import load_policy
from desched.ports import World
from desched.service.clock import SystemClock
from desched.service.cycle_line import log_cycle
from desched.service.endpoints import listen_address, served
from desched.service.health import Health
from desched.service.logs import configure_logs
from desched.service.loop import ServiceLoop
from desched.service.metrics import ServiceMetrics
from desched.service.output import render_report
from desched.service.policy_file import PolicyFile, PolicyReading, log_policy
from desched.service.runner import CycleRunner, PolicyListener, ReportSink
from desched.service.schedule import Schedule, cron, every
from desched.service.signals import stopped_by_signals
from desched.service.terminal import print_report
from desched.settings import Settings

LISTEN_IN_CLUSTER = ":10258"
LISTEN_OUTSIDE = "127.0.0.1:10258"

_log = structlog.get_logger(__name__)


class Intent(NamedTuple):
    """What a run is going to do; `notice` says it to the person who started it."""

    mode: Mode
    notice: str


def run(settings: Settings, stdout: TextIO, stderr: TextIO) -> None:
    """Run one cycle, or cycles until a signal, as the settings say.

    Raises:
        ConfigurationError: a person has to change something.
        ObservationError: the only cycle could not see the cluster or its load.
    """
    quiet = not settings.loops and not settings.given("log_level")
    configure_logs(settings.log_format, "warning" if quiet else settings.log_level, stderr)
    policy_file = _policy_file(settings)
    clock = SystemClock()
    with stopped_by_signals(clock.stop):
        kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
        intent = decide(settings, in_cluster=kubernetes.in_cluster, target=kubernetes.target)
        if not kubernetes.in_cluster and (stderr.isatty() or not settings.loops):
            stderr.write(f"desched: {intent.notice}\n")  # else the log of the service says it
        events = EventWriter(kubernetes, clock, settings.pod_name or "desched")
        evictor = KubernetesEvictor(kubernetes, events) if intent.mode is Mode.EVICT else None
        runner = CycleRunner(
            World(
                KubernetesReader(kubernetes),
                LoadSource(settings, kubernetes, clock),
                clock,
                evictor,
            ),
            policy_file,
            intent.mode,
            kubernetes.target,
        )
        if settings.loops:
            runner.tell_policy_to(_policy_events(settings, kubernetes, events))
            _serve(settings, runner, clock, kubernetes, intent, stdout)
        else:
            _run_once(settings, runner, clock, stdout)


def decide(settings: Settings, *, in_cluster: bool, target: str) -> Intent:
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


def schedule_of(settings: Settings) -> Schedule:
    """When cycles run.

    Raises:
        ConfigurationError: the cron expression or the time zone cannot be understood.
    """
    if settings.cron is not None:
        return cron(settings.cron, settings.timezone)
    return every(round(settings.interval.total_seconds()))


def _serve(
    settings: Settings,
    runner: CycleRunner,
    clock: SystemClock,
    kubernetes: KubernetesConnection,
    intent: Intent,
    stdout: TextIO,
) -> None:
    schedule = schedule_of(settings)
    default_address = LISTEN_IN_CLUSTER if kubernetes.in_cluster else LISTEN_OUTSIDE
    address = listen_address(settings.listen_address or default_address)
    metrics = ServiceMetrics(intent.mode)
    health = Health(clock.monotonic, settings.cycle_deadline.total_seconds())
    runner.report_to(log_cycle, metrics.cycle_completed)
    if settings.output is not None or stdout.isatty():
        runner.report_to(_printer(settings, stdout))
    runner.tell_policy_to(log_policy, metrics.policy_read)
    with served(address, health, metrics.exposition) as bound:
        _log.info(
            "service.started",
            notice=intent.notice,
            target=kubernetes.target,
            mode=intent.mode.value,
            schedule=schedule.text,
            port=bound.port,
        )
        ServiceLoop(runner.run, schedule, clock, health, metrics).run()
    _log.info("service.stopped")


def _run_once(settings: Settings, runner: CycleRunner, clock: SystemClock, stdout: TextIO) -> None:
    runner.tell_policy_to(log_policy)
    runner.report_to(_printer(settings, stdout))
    try:
        runner.run()
    except ObservationError:
        if not clock.stopping():
            raise
        _log.warning("cycle.abandoned", why="desched was asked to stop")


def _printer(settings: Settings, stdout: TextIO) -> ReportSink:
    form = settings.output or "table"

    def write(report: CycleReport) -> None:
        if form == "table" and stdout.isatty():
            print_report(report, Console(file=stdout))
            return
        separator = "---\n" if form == "yaml" and settings.loops else ""
        stdout.write(separator + render_report(report, form))
        stdout.flush()

    return write


def _policy_events(
    settings: Settings, kubernetes: KubernetesConnection, events: EventWriter
) -> PolicyListener:
    """Leaves an Event on desched's own pod for each refused edit, if the pod is known."""
    pod = settings.pod_name

    def announce(reading: PolicyReading) -> None:
        if pod and reading.news and reading.problem:
            namespace = settings.pod_namespace or kubernetes.namespace
            events.warn_on_self(pod, namespace, "PolicyRefused", reading.problem)

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
