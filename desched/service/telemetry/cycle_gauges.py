"""Gauges of the last cycle."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, RefusalReason
from desched.model.report import CycleReport, NotActing
from desched.service.telemetry.enum_gauge import tally
from desched.service.telemetry.state_gauges import state_gauges


class CycleGauges(Collector):
    """Gauges made from the last report at the moment of the scrape, so they always fit together."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.report: CycleReport | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: the names must not depend on whether a cycle has run."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges of the last report, none if there is none."""
        report = self.report
        if report is None:
            return
        plan = report.plan
        yield tally(
            "desched_nodes",
            "Nodes by class.",
            "class",
            NodeClass,
            (v.node_class for v in plan.nodes),
        )
        yield tally(
            "desched_unknown_nodes",
            "Nodes whose load cannot be trusted, by reason.",
            "reason",
            UnknownReason,
            (v.reason for v in plan.nodes if isinstance(v.reason, UnknownReason)),
        )
        yield tally(
            "desched_unrelieved_nodes",
            "Overloaded nodes that are not relieved or not fully, by reason.",
            "reason",
            NodeReason,
            (
                verdict.reason
                for verdict in plan.nodes
                if verdict.node_class is NodeClass.OVERLOADED
                and isinstance(verdict.reason, NodeReason)
            ),
        )
        yield tally(
            "desched_refusals",
            "Pods on overloaded nodes that stay, by reason.",
            "reason",
            RefusalReason,
            (refusal.reason for refusal in plan.refusals),
        )
        yield tally(
            "desched_hold",
            "1 at the reason for which the cycle as a whole evicts nothing.",
            "reason",
            HoldReason,
            [plan.hold] if plan.hold else [],
        )
        yield _loads(report)
        planned = GaugeMetricFamily(
            "desched_planned_evictions", "Evictions that the plan chose.", labels=["mode"]
        )
        planned.add_metric([self._mode], len(plan.evictions))
        yield planned
        yield GaugeMetricFamily(
            "desched_unresolved_series",
            "Series of load that belong to no known node.",
            value=report.observed.unresolved_series,
        )
        yield GaugeMetricFamily(
            "desched_saturated_pools",
            "Pools that need nodes, not moves; a cluster without pools is one.",
            value=len(
                {v.pool for v in plan.nodes if v.reason is NodeReason.POOL_SATURATED}
                | ({""} if plan.hold is HoldReason.CLUSTER_SATURATED else set())
            ),
        )
        yield tally(
            "desched_not_acting",
            "1 at the reason for which no eviction may be made now, whatever is planned.",
            "reason",
            NotActing,
            [report.not_acting] if report.not_acting else [],
        )
        yield GaugeMetricFamily(
            "desched_other_deschedulers",
            "Deschedulers of other makers in the cluster; each undoes the work of the other.",
            value=len(report.other_deschedulers),
        )
        yield from state_gauges(report)


def _loads(report: CycleReport) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "desched_node_load_ratio",
        "Load of a node in its worst window as a share of capacity, as planning counts it.",
        labels=["node", "resource"],
    )
    for verdict in report.plan.nodes:
        for pressure in verdict.pressures:
            family.add_metric([verdict.node, pressure.resource.value], pressure.highest_ratio)
    return family
