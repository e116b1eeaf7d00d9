"""One run of desched, from settings to the end: a single cycle or a service."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from signal import Signals
from typing import NamedTuple, Protocol, TextIO

import structlog

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.sample_store import KubernetesSampleStore
from desched.bootstrap.listeners import listeners_of, listening
from desched.bootstrap.load_samples import LoadSamples, no_window_yet, samples_for_a_look
from desched.bootstrap.logbook import logbook_keeper
from desched.bootstrap.look import own_pod_of
from desched.bootstrap.policy_source import NO_POLICY, config_map_of, named_policy
from desched.bootstrap.process import Intent, Process
from desched.bootstrap.side_tasks import (
    cluster_watch_of,
    contender,
    janitor_of,
    look_once,
    wait_for_lease,
)
from desched.bootstrap.state import refuse_absent_namespace, state_namespace
from desched.bootstrap.trails import Tracing, audit_log, tracing
from desched.cycle_report import CycleInfo
from desched.errors import ConfigurationError, ObservationError
from desched.model.plan import HoldReason
from desched.model.report import CycleReport, CycleResult, Mode
from desched.policy.policy import Policy
from desched.policy_file.loading import LoadedPolicy, load_policy, parse_policy
from desched.ports import Fence
from desched.service.cycles.loop import ServiceLoop
from desched.service.cycles.runner import CycleRunner, ReportSink
from desched.service.cycles.schedule import Schedule, cron, every, time_zone
from desched.service.election.leadership import own_identity
from desched.service.inputs.policy_file import PolicyFile, log_policy
from desched.service.process.clock import SystemClock
from desched.service.process.health import Health
from desched.service.process.http_endpoints import kept, probe_answers
from desched.service.process.logs import configure_logs
from desched.service.process.signals import stop_on_signals
from desched.service.telemetry.cycle_log import CompetitorLog, PluginLog, log_cycle
from desched.service.telemetry.explain_endpoint import ExplainEndpoint, explain_answers
from desched.service.telemetry.kubernetes_events import EventPublisher
from desched.service.telemetry.metrics import ServiceMetrics
from desched.service.telemetry.samples_endpoint import samples_answers
from desched.service.telemetry.status_endpoint import StatusEndpoint, status_answers
from desched.settings import Settings, flag_of, variable_of
from desched.views.cycle import CycleView
from desched.views.cycle_table import cycle_blocks
from desched.views.rendering import write_out

PAGES_KEPT_SECONDS = 5.0
CRON_TAINTS_LAST_SECONDS = 1200.0
"""How long a soft taint lasts with a cron schedule, whose cycles may be far apart.

A replacement may take that long: the longest grace period and the patience, ten minutes each.
"""
STOPPING = "desched: Stopping when the current request ends; a second signal stops at once.\n"
LOAD_UNKNOWN = frozenset(
    {
        HoldReason.TOO_MANY_UNKNOWN_NODES,
        HoldReason.NO_NODE_IN_SCOPE,
        HoldReason.PARTIAL_DATA,
        HoldReason.SEVERAL_CLUSTERS,
        HoldReason.CLOCKS_DIFFER,
    }
)
"""Holds that leave open whether a node is overloaded; scripts must see them as a failure."""

_log = structlog.get_logger(__name__)


PolicyChange = Callable[[Policy], Policy]


class Ending(NamedTuple):
    """How a run without an error ended.

    `cut_short_by` is the signal that ended a single cycle before its report. `inconclusive` is true
    if a single cycle could not know the load, or does not know what became of an eviction.
    """

    cut_short_by: Signals | None = None
    inconclusive: bool = False


class ViewOf(Protocol):
    """Makes the view of a report."""

    def __call__(self, report: CycleReport, *, single: bool) -> CycleView:
        """The view; `single` means that no other cycle follows."""
        ...


class _Output(NamedTuple):
    """Where output goes, how reports are shown, who else gets them, and traces."""

    stdout: TextIO
    stderr: TextIO
    view: ViewOf
    sinks: Sequence[ReportSink]
    traces: Tracing


def run(
    settings: Settings,
    stdout: TextIO,
    stderr: TextIO,
    view: ViewOf = CycleView,
    *sinks: ReportSink,
    change: PolicyChange = lambda policy: policy,
) -> Ending:
    """Run one cycle, or cycles until a signal, depending on the settings.

    `view` is how reports are shown. `sinks` get the reports after the output. `change` is what the
    command line changes about the policy.

    Raises:
        ConfigurationError: a person must change something.
        ObservationError: the only cycle could not read the cluster or its load.
    """
    quiet = not settings.loops and not settings.given("log_level")
    level = "warning" if quiet else settings.log_level
    configure_logs(settings.log_format, level, stderr, service=settings.loops)
    # Invalid settings fail before anything is requested.
    schedule_of(settings)
    listeners_of(settings, in_cluster=False)
    try:
        policy_file = _policy_file(settings, change)
    except ConfigurationError:
        look_once(settings)
        raise
    clock = SystemClock()

    def stop() -> None:
        clock.stop()
        if not settings.loops:
            with suppress(RuntimeError):  # the signal interrupted another write
                stderr.write(STOPPING)

    with (
        tracing() as traces,
        stop_on_signals(stop) as stop_request,
        audit_log(settings, stdout) as audits,
    ):
        try:
            output = _Output(stdout, stderr, view, (*audits, *sinks), traces)
            return _run(settings, policy_file, clock, output)
        except ObservationError:
            if stop_request.received is None:
                raise
            return Ending() if settings.loops else Ending(cut_short_by=stop_request.received)


def _run(
    settings: Settings, policy_file: PolicyFile, clock: SystemClock, output: _Output
) -> Ending:
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    intent = intent_of(settings, in_cluster=kubernetes.in_cluster, target=kubernetes.target)
    if not kubernetes.in_cluster and _prints_notice(settings, intent, output.stderr):
        output.stderr.write(f"desched: {intent.notice}\n")
        intent = intent._replace(notice="")
    if intent.mode is Mode.EVICT and not kubernetes.in_cluster:
        refuse_absent_namespace(settings, kubernetes)  # in a pod it is the pod's own
    identity = own_identity(settings.pod_name)
    leadership = contender(settings, kubernetes, intent.mode, identity, clock)
    metrics = ServiceMetrics(intent.mode)
    may_act: Fence = (lambda: True) if leadership is None else leadership.may_act
    process = Process(
        settings,
        kubernetes,
        clock,
        intent,
        identity,
        leadership,
        EventWriter(kubernetes, clock, own_pod_of(settings, kubernetes)),
        metrics,
        _samples(settings, kubernetes, intent.mode, may_act),
        janitor_of(settings, metrics, may_act),
        cluster_watch_of(settings, kubernetes.reads),
    )
    runner = CycleRunner(
        output.traces.world(process.world()),
        policy_file,
        process.state(),
        CycleInfo(0, intent.mode, kubernetes.target, identity, taints_last_seconds(settings)),
    )
    runner.on_policy(log_policy)
    runner.on_report(*_report_sinks(settings, output), *output.sinks)
    if settings.loops:
        with ExitStack() as side_tasks:
            if process.janitor is not None:
                side_tasks.enter_context(process.janitor.at_work())
            if process.watch is not None:
                side_tasks.callback(process.watch.end)
            _serve(runner, process, output.traces)
        return Ending()
    with nullcontext() if leadership is None else leadership.contend():
        if leadership is not None:
            wait_for_lease(leadership, settings, clock)
        report = output.traces.cycle(runner.run)()
    ending = Ending(inconclusive=is_inconclusive(report))
    policy = policy_file.read().policy
    if ending.inconclusive and policy.metrics.type.is_sampled:
        output.stderr.write(f"desched: {no_window_yet(policy)}\n")
    return ending


def _samples(
    settings: Settings, kubernetes: KubernetesConnection, mode: Mode, may_act: Fence
) -> LoadSamples:
    """What a service leaves to the next run; a dry run reads it and must not write."""
    if not settings.loops:
        return samples_for_a_look(settings, kubernetes)
    store = KubernetesSampleStore(kubernetes, state_namespace(settings, kubernetes))
    return LoadSamples(store, may_act if mode is Mode.EVICT else None)


def is_inconclusive(report: CycleReport) -> bool:
    """Whether the only cycle could not know the load, or what became of an eviction."""
    return report.result is CycleResult.STOPPED or report.plan.hold in LOAD_UNKNOWN


def taints_last_seconds(settings: Settings) -> float:
    """Two cycles of an interval, because the next cycle renews the taints that it still needs."""
    if settings.cron is not None:
        return CRON_TAINTS_LAST_SECONDS
    return 2 * settings.interval.total_seconds()


def intent_of(settings: Settings, *, in_cluster: bool, target: str) -> Intent:
    """Whether to evict: in a cluster by default, outside only with --evict."""
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
    """Whether to print the notice; otherwise the log of the service contains it."""
    hidden = settings.log_level in {"warning", "error"} and intent.mode is Mode.EVICT
    return hidden or stderr.isatty() or not settings.loops


def schedule_of(settings: Settings) -> Schedule:
    """When cycles run.

    Raises:
        ConfigurationError: the cron expression or the time zone is invalid.
    """
    if settings.cron is None:
        return every(round(settings.interval.total_seconds()))
    name = "timezone"
    try:
        time_zone(settings.timezone)
        name = "cron"
        return cron(settings.cron, settings.timezone)
    except ConfigurationError as error:
        raise ConfigurationError(f"{flag_of(name)} ({variable_of(name)}): {error}") from error


def _serve(runner: CycleRunner, process: Process, traces: Tracing) -> None:
    settings, clock, mode = process.settings, process.clock, process.intent.mode
    schedule = schedule_of(settings)
    metrics, leadership = process.metrics, process.leadership
    health = Health(clock.monotonic, settings.cycle_deadline.total_seconds())
    leader = (lambda: leadership.holder) if leadership else str
    status = StatusEndpoint(process.identity, mode, clock.now, leader)
    runner.on_report(
        metrics.cycle_completed,
        status.cycle_completed,
        CompetitorLog().publish,
        PluginLog().publish,
        EventPublisher(process.events).publish,
    )
    if process.janitor is not None:
        runner.on_report(process.janitor.cycle_completed)
    if (keeper := logbook_keeper(process)) is not None:
        runner.on_report(keeper.cycle_completed)  # last: nothing waits for it
    runner.on_policy(metrics.policy_read, status.policy_read, process.announce_refusal)
    if leadership is not None:

        def show(*, leading: bool) -> None:
            metrics.leadership_changed(leading=leading)
            status.leadership_changed(leading=leading)

        show(leading=False)
        leadership.on_change(lambda change: show(leading=change.leading))
    explanations = ExplainEndpoint(process.kubernetes.target)
    runner.on_decision(explanations.decided)
    probes = probe_answers(health, metrics.exposition, clock.monotonic)
    pages = {**status_answers(status), **samples_answers(process.samples.offered)}
    everything = {
        **probes,
        **kept(pages, PAGES_KEPT_SECONDS, clock.monotonic),
        **explain_answers(explanations),
    }
    listeners = listeners_of(settings, in_cluster=process.kubernetes.in_cluster)
    with listening(listeners, probes, everything) as ports:
        notice = {"notice": process.intent.notice} if process.intent.notice else {}
        _log.info("service.started", **notice, mode=mode.value, schedule=schedule.text, **ports)
        loop = ServiceLoop(
            traces.cycle(runner.run),
            schedule,
            clock,
            health,
            metrics,
            leadership,
            status.cycle_failed,
            runner.read_edit,
        )
        with nullcontext() if leadership is None else leadership.contend():
            loop.run()
            process.samples.keep()
            if process.janitor is not None:
                process.janitor.clear()
    _log.info("service.stopped")


def _report_sinks(settings: Settings, output: _Output) -> Iterator[ReportSink]:
    """Where reports go: the log of a service, and standard output if somebody reads it."""
    stdout = output.stdout
    printer = report_printer(settings, stdout, output.view)
    if not settings.loops:
        yield printer
        return
    prints = settings.output is not None or stdout.isatty()
    as_table = prints and settings.output in {None, "table"}
    if not (as_table and stdout.isatty() and output.stderr.isatty()):
        yield log_cycle  # on one terminal, its line would repeat the table
    if prints:
        yield printer


def report_printer(settings: Settings, stdout: TextIO, view: ViewOf) -> ReportSink:
    """Prints reports in the form that the settings name."""

    def write(report: CycleReport) -> None:
        if settings.output == "yaml" and settings.loops:
            stdout.write("---\n")
        shown = view(report, single=not settings.loops)
        write_out(settings.output, shown, cycle_blocks(shown), stdout)

    return write


def _policy_file(settings: Settings, change: PolicyChange) -> PolicyFile:
    """The policy file, read once so that an invalid one is refused before anything runs."""
    path, config_map = settings.policy, config_map_of(settings)
    if path is None and (settings.loops or not settings.dry_run):  # what acts has its own
        raise ConfigurationError(NO_POLICY)
    if config_map is not None and settings.loops:
        raise ConfigurationError(
            f"--policy {path} is read only once, but this runs cycle after cycle; mount the "
            "ConfigMap and name its file, or run one cycle with --once."
        )
    if path is None or config_map is not None or path.is_fifo():  # such as /dev/stdin
        loaded = parse_policy(*named_policy(settings, SystemClock().wait))
        return PolicyFile(lambda: _changed(loaded, change))
    policy_file = PolicyFile(lambda: _changed(load_policy(path), change))
    policy_file.read()
    return policy_file


def _changed(loaded: LoadedPolicy, change: PolicyChange) -> LoadedPolicy:
    return loaded._replace(policy=change(loaded.policy))
