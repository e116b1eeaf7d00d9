"""Gauges of the last cycle, and of the state that it hands to the next one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, RefusalReason
from desched.model.report import CycleReport, NotActing
from desched.model.state import PauseScope
from desched.plugins import HOUSE
from desched.service.telemetry.help_texts import HELP_TEXTS
from desched.views.cycle import CycleView

MOST_NAMESPACES = 20
"""Namespaces that have a series of their own: tenants decide how many there are."""

_JUDGED = (NodeClass.OVERLOADED, NodeClass.BALANCED, NodeClass.UNDERLOADED)
"""The classes of nodes whose load is forecast."""


class CycleGauges(Collector):
    """Gauges made from the last report at the time of the scrape, so that they are consistent."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.report: CycleReport | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: the names must not depend on whether a cycle has run."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges of the last report; none without a report."""
        report = self.report
        if report is None:
            return
        cycle = CycleView(report)
        for name, label, values, counted in _COUNTS_BY_VALUE:
            counts = Counter(counted(cycle))
            yield _family(name, [label], (([value.value], counts[value]) for value in values))
        loads = (
            ([verdict.node, pressure.resource.value], pressure.highest_ratio)
            for verdict in report.plan.nodes
            for pressure in verdict.pressures
        )
        yield _family("desched_node_load_ratio", ["node", "resource"], loads)
        expected = (([kind.value], _minutes(report, kind)) for kind in _JUDGED)
        yield _family("desched_expected_overload_minutes", ["class"], expected)
        planned = [([self._mode], len(report.plan.evictions))]
        yield _family("desched_planned_evictions", ["mode"], planned)
        for name, number in _NUMBERS:
            yield _family(name, [], [([], number(cycle))])
        yield _family("desched_too_large_objects", ["namespace"], _too_large(report))
        for plugin in HOUSE:
            for gauge in plugin.views.gauges(report):
                yield _filled(*gauge)
        quality = cycle.state.forecast_quality
        for name, ratio in zip(_FORECAST_NAMES, quality or (), strict=bool(quality)):
            yield _family(name, [], [([], ratio)])


def _family(
    name: str, labels: list[str], samples: Iterable[tuple[list[str], float]]
) -> GaugeMetricFamily:
    return _filled(name, HELP_TEXTS[name], labels, samples)


def _filled(
    name: str,
    help_text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, value in samples:
        family.add_metric(label_values, value)
    return family


def _minutes(report: CycleReport, kind: NodeClass) -> float:
    """The expected overload of the nodes of this class."""
    outlooks = (v.outlook for v in report.plan.nodes if v.node_class is kind)
    return sum(outlook.overload for outlook in outlooks if outlook is not None)


def _too_large(report: CycleReport) -> Iterable[tuple[list[str], float]]:
    counts = Counter({name: it.objects + it.pods for name, it in report.too_large.items()})
    return (([name], count) for name, count in counts.most_common(MOST_NAMESPACES))


def _unknown(cycle: CycleView) -> Iterator[StrEnum | None]:
    return (v.reason for v in cycle.report.plan.nodes)


def _unrelieved(cycle: CycleView) -> Iterator[StrEnum | None]:
    nodes = cycle.report.plan.nodes
    return (v.reason for v in nodes if v.node_class is NodeClass.OVERLOADED)


def _saturated_pools(cycle: CycleView) -> int:
    plan = cycle.report.plan
    pools = {v.pool for v in plan.nodes if v.reason is NodeReason.POOL_SATURATED}
    return len(pools | ({""} if plan.hold is HoldReason.CLUSTER_SATURATED else set()))


_Found = Callable[[CycleView], Iterable[StrEnum | None]]

# Each has one series for every value, 0 for a value that is not found; others are not counted.
_COUNTS_BY_VALUE: tuple[tuple[str, str, type[StrEnum], _Found], ...] = (
    ("desched_nodes", "class", NodeClass, lambda c: (v.node_class for v in c.report.plan.nodes)),
    ("desched_unknown_nodes", "reason", UnknownReason, _unknown),
    ("desched_unrelieved_nodes", "reason", NodeReason, _unrelieved),
    ("desched_refusals", "reason", RefusalReason, lambda c: (x.reason for x in c.refusals)),
    ("desched_hold", "reason", HoldReason, lambda c: [c.report.plan.hold]),
    ("desched_not_acting", "reason", NotActing, lambda c: [c.report.not_acting]),
    ("desched_paused", "scope", PauseScope, lambda c: (p.scope for p in c.state.pauses)),
)

_NUMBERS: tuple[tuple[str, Callable[[CycleView], float]], ...] = (
    ("desched_unresolved_series", lambda c: c.report.observed.unresolved_series),
    ("desched_saturated_pools", _saturated_pools),
    ("desched_other_deschedulers", lambda c: len(c.report.other_deschedulers)),
    ("desched_evictions_in_flight", lambda c: len(c.report.state.in_flight)),
    ("desched_workloads_cooling_down", lambda c: len(c.state.cool_downs)),
    ("desched_nodes_cooling_down", lambda c: len(c.state.cooling_nodes)),
    ("desched_state_bytes", lambda c: len(msgspec.json.encode(c.report.state))),
)

# In the order of the fields of ForecastQuality.
_FORECAST_NAMES = tuple(
    f"desched_forecast_{name}"
    for name in ("checks", "hit_ratio", "hit_expected_ratio", "bad_ratio", "bad_expected_ratio")
)
