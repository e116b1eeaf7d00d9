"""All checks of one examination, in order of importance."""

from collections.abc import Callable, Iterator, Mapping

from desched.doctor.api_server import check_api_server, check_clocks, check_cluster
from desched.doctor.budgets import check_budgets
from desched.doctor.checks import Check, CheckName, Diagnosis, Verdict, problem, skipped
from desched.doctor.examination import Examination, Unanswered
from desched.doctor.held_nodes import check_held_nodes
from desched.doctor.local_storage import check_local_storage
from desched.doctor.measures import NAMES, check_measures
from desched.doctor.other_controllers import check_autoscalers, check_other_deschedulers
from desched.doctor.policy import check_policy
from desched.doctor.prometheus_address import check_honored_labels, check_matchers, check_prometheus
from desched.doctor.rights import check_rights
from desched.doctor.scheduler import check_scheduler
from desched.doctor.state import check_soft_taints, check_state
from desched.doctor.systems import check_systems
from desched.doctor.thresholds import check_nodes, check_thresholds
from desched.doctor.windows import check_history, check_windows
from desched.model.cluster import ClusterState
from desched.model.measures import MetricsFacts
from desched.model.snapshot import Snapshot
from desched.plugins import HOUSE
from desched.promql.plugin import MeasuringPlugin

OF_CLUSTER: Mapping[CheckName, Callable[[ClusterState, Examination], Check]] = {
    CheckName.CLOCKS: check_clocks,
    CheckName.SOFT_TAINTS: check_soft_taints,
    CheckName.BUDGETS: check_budgets,
    CheckName.LOCAL_STORAGE: check_local_storage,
    CheckName.OTHER_DESCHEDULERS: check_other_deschedulers,
    CheckName.AUTOSCALERS: check_autoscalers,
    CheckName.HELD_NODES: check_held_nodes,
    CheckName.SCHEDULER: check_scheduler,
}
OF_METRICS: Mapping[CheckName, Callable[[MetricsFacts, Examination], Check]] = {
    CheckName.MATCHERS: check_matchers,
    CheckName.HONORED_LABELS: check_honored_labels,
    CheckName.WINDOWS: check_windows,
}
OF_LOAD: Mapping[CheckName, Callable[[Snapshot, Examination], Check]] = {
    CheckName.HISTORY: check_history,
    CheckName.NODES: check_nodes,
    CheckName.THRESHOLDS: check_thresholds,
}
OF_POLICY = frozenset(
    {
        CheckName.HELD_NODES,
        CheckName.WINDOWS,
        CheckName.HISTORY,
        CheckName.THRESHOLDS,
    }
)
"""What these judge is in the policy, so it must be valid."""

_NAMES = tuple(CheckName)
_MEASURED_ALL = _NAMES.index(CheckName.POD_MEMORY) + 1
MEASURED = {
    plugin.load.plugin: plugin.measures.check
    for plugin in HOUSE
    if isinstance(plugin, MeasuringPlugin)
}
ORDER: tuple[str, ...] = (*_NAMES[:_MEASURED_ALL], *MEASURED, *_NAMES[_MEASURED_ALL:])
"""The names of all checks, the most important first."""


def diagnose(examination: Examination) -> Diagnosis:
    """The verdict of every check."""
    checks = (
        check_api_server(examination),
        check_policy(examination),
        check_cluster(examination),
        check_prometheus(examination),
        check_state(examination),
        *check_rights(examination),
        *check_systems(examination),
        *_of_cluster(examination),
        *_of_metrics(examination),
        *_of_load(examination),
        *_of_devices(examination),
    )
    return Diagnosis(tuple(sorted(checks, key=lambda check: ORDER.index(check.name))))


def _of_cluster(examination: Examination) -> Iterator[Check]:
    cluster = examination.cluster
    for name, check in OF_CLUSTER.items():
        if isinstance(cluster, Unanswered):
            yield skipped(name, "The cluster could not be read.")
        else:
            yield _invalid(name, examination) or check(cluster, examination)


def _of_metrics(examination: Examination) -> Iterator[Check]:
    metrics = examination.metrics
    if isinstance(metrics, Unanswered):
        yield from (skipped(name, metrics.why) for name in (*OF_METRICS, *NAMES.values()))
        return
    yield from check_measures(metrics, examination)
    for name, check in OF_METRICS.items():
        invalid = _invalid(name, examination)
        yield invalid or check(metrics, examination)


def _of_load(examination: Examination) -> Iterator[Check]:
    snapshot, load = examination.snapshot, examination.load
    for name, check in OF_LOAD.items():
        if snapshot is not None:
            yield _invalid(name, examination) or check(snapshot, examination)
        elif name is CheckName.NODES and isinstance(load, Unanswered) and _asked(examination):
            fix = "Correct what a measure above names, in `metrics.queries` or `metrics.sources`."
            yield problem(name, load.why, fix)
        else:
            yield skipped(name, "The load is not known.")


def _of_devices(examination: Examination) -> Iterator[Check]:
    """What plugins say of the loads that they measure."""
    snapshot, policy = examination.snapshot, examination.policy
    for name, check in MEASURED.items():
        if snapshot is None:
            yield skipped(name, "The load is not known.")
        elif policy.problem:
            yield skipped(name, "The policy is invalid.")
        else:
            result, fix, details = check(policy.policy, snapshot)
            yield Check(name, Verdict.WARNING if fix else Verdict.OK, result, fix, details)


def _invalid(name: CheckName, examination: Examination) -> Check | None:
    if examination.policy.problem and name in OF_POLICY:
        return skipped(name, "The policy is invalid.")
    return None


def _asked(examination: Examination) -> bool:
    """Whether Prometheus answers, so that it is a certain query that fails."""
    return not isinstance(examination.metrics, Unanswered)
