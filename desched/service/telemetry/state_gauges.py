"""Gauges of what is remembered from cycle to cycle."""

from collections.abc import Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily

from desched.model.report import CycleReport
from desched.model.state import PauseScope
from desched.planning.placement.forecast_trust import ForecastQuality, forecast_quality
from desched.service.reports.on_hold import on_hold
from desched.service.telemetry.enum_gauge import tally


def state_gauges(report: CycleReport) -> Iterator[GaugeMetricFamily]:
    """What is in flight, what is left alone, and how well landings are foretold."""
    state = report.state
    alone = on_hold(state, report.started_at)
    yield GaugeMetricFamily(
        "desched_evictions_in_flight",
        "Evictions of which it is not known yet what became of them.",
        value=len(state.in_flight),
    )
    yield GaugeMetricFamily(
        "desched_workloads_cooling_down",
        "Workloads that are left alone for a while after a move.",
        value=len(alone.cool_downs),
    )
    yield GaugeMetricFamily(
        "desched_nodes_cooling_down",
        "Nodes that are left alone for a while because moves have not relieved them.",
        value=len(alone.cooling_nodes),
    )
    yield tally(
        "desched_paused",
        "Pauses that last, by how wide they are.",
        "scope",
        PauseScope,
        (pause.scope for pause in alone.pauses),
    )
    yield GaugeMetricFamily(
        "desched_state_bytes",
        "Size of what one cycle hands to the next.",
        value=len(msgspec.json.encode(state)),
    )
    quality = forecast_quality(state, report.started_at)
    if quality is not None:
        yield from _forecast_gauges(quality)


def _forecast_gauges(quality: ForecastQuality) -> Iterator[GaugeMetricFamily]:
    for name, text, value in (
        ("checks", "Landings of the last 24 hours that were compared with their forecast.", 0),
        ("hit_ratio", "Share of these landings on a node where they were likeliest.", 1),
        ("hit_expected_ratio", "Share of such landings that the forecasts promised.", 2),
        ("bad_ratio", "Share of these landings that did not help.", 3),
        ("bad_expected_ratio", "Share of landings without help that the forecasts promised.", 4),
    ):
        yield GaugeMetricFamily(f"desched_forecast_{name}", text, value=quality[value])
