"""How many nodes have trusted load, and what do the thresholds make of today's load?"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from desched.doctor.checks import Check, CheckName, ok, problem, skipped, warning
from desched.doctor.examination import Examination, Unanswered
from desched.model.groups import grouped
from desched.model.load import LoadProblem, UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, NodeVerdict
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.holds import unknown_nodes_hold
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.huge_pages import huge_page_bytes
from desched.planning.overload.node_load import weighted_mean
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import MetricsType, Policy
from desched.policy.windows_of_samples import with_one_window
from desched.wording.formatting import clock_time, count, first_names, percent, span
from desched.wording.reasons import sentence_of

SOUGHT_SHARE = 0.05
"""The thresholds at which this share of the nodes would be overloaded are worth knowing."""

MANY_SHARE = 0.25
"""If more nodes are overloaded, the target is too low, or the cluster too small."""


class ResourceLoad(NamedTuple):
    """Today's load of a resource in a pool, and at which target some nodes would be overloaded.

    With deviation thresholds, ratios are distances above the mean.
    """

    pool: str
    resource: Resource
    nodes: int
    highest_ratio: float
    sought_ratio: float
    quarter_ratio: float


NEWEST_SAMPLE_SECONDS = 10
"""A window that one sample covers; metrics-server measures at most this often."""


def judged_policy(policy: Policy) -> Policy:
    """The policy by which one look can judge: without history, by the newest sample alone."""
    if policy.metrics.type.is_sampled:
        return with_one_window(policy, NEWEST_SAMPLE_SECONDS)
    return policy


def pressure_of(snapshot: Snapshot, policy: Policy, state: State | None) -> Pressure:
    """The class of each node by its present load."""
    policy = judged_policy(policy)
    return classify(UsageBook(snapshot, policy, snapshot.taken_at), state or State())


def check_nodes(snapshot: Snapshot, examination: Examination) -> Check:
    """Whether enough nodes have trusted load."""
    name, policy = CheckName.NODES, examination.policy.policy
    for kind, detail in snapshot.load.problems:
        if kind is LoadProblem.PARTIAL_DATA:
            fix = (
                "Check the stores behind Prometheus; `metrics.matchers` can leave broken ones out."
            )
            return problem(name, f"{detail}; each cycle would be held.", fix)
    source_fix = _SOURCE_FIXES.get(policy.metrics.type)
    pressure = pressure_of(snapshot, policy, None)
    by_reason = Counter(v.reason for v in pressure.verdicts if v.node_class is NodeClass.UNKNOWN)
    details = tuple(_details(pressure.verdicts))
    with_load = count(len(pressure.known), "node has", "nodes have")
    unknown = sum(by_reason.values())
    if hold := unknown_nodes_hold(pressure):
        sentence = f"{sentence_of(hold.reason).removesuffix('.')} ({hold.detail})."
        fix = _fix(hold.reason, by_reason, pressure.verdicts, snapshot.taken_at)
        if source_fix and hold.reason is not HoldReason.NO_NODE_IN_SCOPE:
            fix = source_fix
        return problem(name, sentence, fix, details)
    left_out = sum(v.node_class is NodeClass.OUT_OF_SCOPE for v in pressure.verdicts)
    sentence = f"{with_load} trusted load, {unknown} unknown, {left_out} out of scope."
    if kept := [n for n in snapshot.cluster.nodes if huge_page_bytes(n)]:
        share = max(huge_page_bytes(n) / n.capacity.memory_bytes for n in kept)
        nodes = count(len(kept), "node keeps", "nodes keep")
        sentence += f" {nodes} up to {share:.0%} of the memory for huge pages; that does not count."
    if source_fix:
        sentence += " Only the newest samples were looked at."
    if unknown:
        fix = source_fix or _unknown_fix(by_reason, pressure.verdicts, snapshot.taken_at)
        return warning(name, sentence, fix, details)
    return ok(name, sentence, details=details)


def _details(verdicts: Sequence[NodeVerdict]) -> Iterator[str]:
    """The nodes that are not judged, by reason."""
    names_by_reason: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.reason is not None and verdict.node_class in {
            NodeClass.UNKNOWN,
            NodeClass.OUT_OF_SCOPE,
        }:
            names_by_reason.setdefault(
                f"{verdict.reason}: {sentence_of(verdict.reason)}", []
            ).append(verdict.node)
    for reason, nodes in sorted(names_by_reason.items(), key=lambda pair: -len(pair[1])):
        yield f"{first_names(nodes, 5)}: {reason}"


def _fix(
    hold: HoldReason,
    unknown: Counter[NodeReason | UnknownReason | None],
    verdicts: Sequence[NodeVerdict],
    now: datetime,
) -> str:
    if hold is not HoldReason.NO_NODE_IN_SCOPE:
        return _unknown_fix(unknown, verdicts, now)
    reasons = Counter(v.reason for v in verdicts)
    match next(iter(dict(reasons.most_common())), None):
        case NodeReason.TOO_YOUNG:
            young = [v for v in verdicts if v.reason is NodeReason.TOO_YOUNG]
            return wait_for_windows(young, now)
        case NodeReason.NOT_SELECTED:
            return "Correct `nodeSelector` in the policy."
        case _:
            return "Check the nodes with `kubectl get nodes`, and `nodeSelector` in the policy."


_UNKNOWN_FIXES: Mapping[UnknownReason, str] = {
    UnknownReason.ABSENT: "Let Prometheus scrape each node; see the measures above, "
    "`metrics.sources` and `metrics.matchers`.",
    UnknownReason.STALE: "Check the exporters of these nodes: `kubectl get pods -A -o wide`.",
    UnknownReason.WINDOW_NOT_COVERED: "Wait until Prometheus has data of whole windows, or set "
    "wider `windows`.",
    UnknownReason.NOT_FINITE: "Check `metrics.queries`, or the exporter.",
    UnknownReason.IMPLAUSIBLE: "Check the unit in `metrics.queries`: a share from 0 to 1.",
    UnknownReason.CONTRADICTORY: "Choose one exporter for each node with `metrics.sources`; "
    "one that reports more than the node's capacity must read the node's own /proc (lxcfs in LXC).",
    UnknownReason.PODS_ABOVE_NODE: "Check whose series `metrics.sources` accepts.",
}


_SOURCE_FIXES = {
    MetricsType.METRICS_SERVER: "Compare with `kubectl top nodes`, and read the log of "
    "metrics-server: `kubectl --namespace kube-system logs deployment/metrics-server`.",
    MetricsType.PROMETHEUS_ADAPTOR: "Compare with `kubectl get --raw "
    '"/apis/custom.metrics.k8s.io/v1beta1/nodes/*/node_cpu_usage_avg"`: each node needs a value '
    "from 0 to 1 under its own name; correct the rules of the adapter.",
}
"""By the sources that have no history."""


def _unknown_fix(
    unknown: Counter[NodeReason | UnknownReason | None],
    verdicts: Sequence[NodeVerdict],
    now: datetime,
) -> str:
    reason = next(iter(dict(unknown.most_common())), None)
    of_it = [v for v in verdicts if v.node_class is NodeClass.UNKNOWN and v.reason is reason]
    if wait := wait_for_windows(of_it, now):
        return wait
    if isinstance(reason, UnknownReason):
        return _UNKNOWN_FIXES[reason]
    return _UNKNOWN_FIXES[UnknownReason.ABSENT]


def wait_for_windows(verdicts: Sequence[NodeVerdict], now: datetime) -> str:
    """What to do about nodes that time alone lets judge; empty unless all of them are such."""
    ends = [verdict.until for verdict in verdicts if verdict.until is not None]
    if not ends or len(ends) < len(verdicts):
        return ""
    return wait_until(max(ends), now)


def wait_until(end: datetime, now: datetime) -> str:
    """What to do while Prometheus has not enough samples yet."""
    return f"Wait {span(end - now)}, until {clock_time(end, now)}, or shorten `windows`."


def check_thresholds(snapshot: Snapshot, examination: Examination) -> Check:
    """How many nodes are overloaded and underloaded now, and for which targets 5 % would be."""
    name, policy = CheckName.THRESHOLDS, examination.policy.policy
    state = examination.state
    stored = None if isinstance(state, Unanswered) else state.state
    pressure = pressure_of(snapshot, policy, stored)
    if not pressure.known:
        return skipped(name, "No node has trusted load.")
    classes = Counter(v.node_class for v in pressure.verdicts)
    over, under = classes[NodeClass.OVERLOADED], classes[NodeClass.UNDERLOADED]
    loads = list(resource_loads(pressure, policy))
    sentence = f"{count(over, 'node is', 'nodes are')} overloaded now, {under} underloaded."
    details = [_line(load, policy) for load in loads]
    key = "useDeviationThresholds" if policy.deviation else "targetThresholds"
    if pressure.saturated is not None:
        full = sentence_of(pressure.saturated.reason).removesuffix(".")
        sentence_with_pool = f"{sentence} {full} ({pressure.saturated.detail})."
        fix = "Add nodes; if these nodes are not too full for you, raise `targetThresholds`."
        return warning(name, sentence_with_pool, fix, details)
    if over > MANY_SHARE * len(pressure.known):
        fix = f"Set `{key}` by today's load: {_sought(loads, policy)}."
        return warning(name, sentence, fix, details)
    if policy.min_underloaded_nodes and under <= policy.min_underloaded_nodes:
        least = policy.min_underloaded_nodes
        sentence_with_pool = (
            f"{sentence} numberOfNodes requires more than {least} of them for any eviction."
        )
        return warning(
            name, sentence_with_pool, "Lower `numberOfNodes`, or raise `thresholds`.", details
        )
    hint = "" if over else f"With {_sought(loads, policy)}, 5 % of the nodes would be overloaded."
    return ok(name, sentence, hint, details)


def resource_loads(pressure: Pressure, policy: Policy) -> Iterator[ResourceLoad]:
    """Today's load of each resource in each pool."""
    loads_by_pool = grouped(
        ((loaded.verdict.pool, source.resource), (each.lowest_ratio, source.bases[0].denominator))
        for loaded in pressure.known.values()
        for source, each in zip(loaded.sources, loaded.verdict.pressures, strict=True)
    )
    for (pool, resource), loads in sorted(loads_by_pool.items()):
        mean = weighted_mean(loads) if policy.deviation else 0.0
        ratios = sorted(ratio - mean for ratio, _ in loads)
        rank = max(1, math.ceil(SOUGHT_SHARE * len(ratios)))
        quarter = ratios[len(ratios) // 4]
        yield ResourceLoad(pool, resource, len(ratios), ratios[-1], ratios[-rank], quarter)


def sought_percent(load: ResourceLoad) -> int:
    """The highest whole percentage at which at least 5 % of the nodes would be overloaded."""
    return max(0, math.ceil(load.sought_ratio * 100) - 1)


def _sought(loads: Sequence[ResourceLoad], policy: Policy) -> str:
    parts = [
        f"{load.resource.value} {sought_percent(load)}"
        + (f" in pool {load.pool}" * bool(load.pool))
        for load in loads
    ]
    above = " above the mean" if policy.deviation else ""
    return f"{', '.join(parts)} (percent{above})"


def _line(load: ResourceLoad, policy: Policy) -> str:
    pool = f"pool {load.pool}, " if load.pool else ""
    above = " above the mean" if policy.deviation else ""
    return (
        f"{pool}{load.resource.value}: the fullest of {count(load.nodes, 'node')} is at "
        f"{percent(load.highest_ratio)} %{above}; 5 % would be overloaded with a target of "
        f"{sought_percent(load)}"
    )
