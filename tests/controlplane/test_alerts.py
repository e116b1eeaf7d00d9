"""The alerts in deploy/alerts.yaml are rules of Prometheus that fire when they should, not else."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.controlplane.binaries import find_or_build
from tests.controlplane.chart_rendering import DEPLOY, run

ALERTS = DEPLOY / "alerts.yaml"
HOURS = 9


class Case(NamedTuple):
    """Samples a minute apart, as promtool has them, and when the alert is quiet and fires."""

    series: dict[str, str]
    quiet_at: str
    fires_at: str


def steady(value: int) -> str:
    return f"{value}x{HOURS * 60}"


def from_minute(minute: int, value: int) -> str:
    return f"0x{minute - 1} {value}x{HOURS * 60}"


def counter(per_minute: float) -> str:
    return f"0+{per_minute}x{HOURS * 60}"


def rising_at(minute: int, by: int) -> str:
    """A counter that grows once."""
    return from_minute(minute, by)


EVICTIONS = 'desched_evictions_total{mode="evict",namespace="shop",verdict="%s"}'
MOVES = 'desched_moves_total{result="%s"}'
DRAINS = 'desched_drains_total{end="%s"}'
CYCLES = 'desched_cycles_total{mode="evict",result="%s"}'

BORN_AT_30 = f"_x30 1x{HOURS * 60}"
"""The service makes these series only when it counts the first."""

CASES = {
    "DeschedSeesNothing": Case({"desched_last_success_timestamp_seconds": "600x540"}, "54m", "57m"),
    "DeschedHeld": Case({'desched_hold{reason="partial_data"}': steady(1)}, "59m", "61m"),
    "DeschedPolicyRefused": Case({"desched_policy_valid": steady(0)}, "14m", "16m"),
    "DeschedCrashed": Case({CYCLES % "crashed": rising_at(30, 1)}, "29m", "32m"),
    "DeschedStopped": Case({CYCLES % "stopped": rising_at(30, 1)}, "29m", "32m"),
    "DeschedNobodyLeads": Case(
        {f'desched_leader{{pod="{pod}"}}': steady(0) for pod in "ab"}, "4m", "6m"
    ),
    "DeschedLeadershipFlaps": Case(
        {"desched_leadership_changes_total": "0x29 3x29 6x480"}, "40m", "61m"
    ),
    "DeschedStateProblems": Case({"desched_state_problems_total": rising_at(30, 1)}, "29m", "32m"),
    "DeschedTaintsStay": Case({"desched_taint_removal_failures_total": counter(1)}, "29m", "33m"),
    "DeschedTicksSkipped": Case(
        {'desched_ticks_skipped_total{reason="still_running"}': counter(0.1)}, "20m", "60m"
    ),
    "DeschedEvictionsForbidden": Case({EVICTIONS % "forbidden": BORN_AT_30}, "29m", "32m"),
    "DeschedGangBroken": Case({EVICTIONS % "gang_broken": BORN_AT_30}, "29m", "32m"),
    "DeschedPaused": Case({'desched_paused{scope="everything"}': steady(1)}, "14m", "16m"),
    "DeschedPoolPaused": Case({'desched_paused{scope="pool"}': steady(1)}, "14m", "16m"),
    "DeschedNotAlone": Case({"desched_other_deschedulers": steady(1)}, "14m", "16m"),
    "DeschedClusterInTrouble": Case(
        {'desched_hold{reason="cluster_in_trouble"}': steady(1)}, "14m", "16m"
    ),
    "DeschedUnknownNodes": Case({'desched_unknown_nodes{reason="stale"}': steady(1)}, "59m", "61m"),
    "DeschedUnknownGPUs": Case({"desched_unknown_gpu_nodes": steady(1)}, "59m", "61m"),
    "DeschedDrainsFail": Case(
        {
            DRAINS % "broken": rising_at(30, 2),
            DRAINS % "time_over": rising_at(60, 1),
            DRAINS % "landed": counter(1),
        },
        "50m",
        "62m",
    ),
    "DeschedMovesFail": Case(
        {
            MOVES % "landed_overloaded": rising_at(30, 3),
            MOVES % "still_pending": rising_at(60, 4),
            MOVES % "landed_as_forecast": counter(1),
        },
        "50m",
        "62m",
    ),
    "DeschedForecastsWrong": Case(
        {
            "desched_forecast_bad_ratio": "0.5x540",
            "desched_forecast_bad_expected_ratio": "0.1x540",
            "desched_forecast_checks": from_minute(30, 10),
        },
        "89m",
        "92m",
    ),
    "DeschedMovesUnsettled": Case(
        {"desched_evictions_in_flight": steady(1), MOVES % "landed_as_forecast": rising_at(30, 1)},
        "3h",
        "3h35m",
    ),
    "DeschedNotConfirmed": Case(
        {EVICTIONS % "evicted": counter(0.1), EVICTIONS % "not_confirmed": "0x119 0+1x420"},
        "2h",
        "3h",
    ),
    "DeschedThrottled": Case({EVICTIONS % "throttled": BORN_AT_30}, "29m", "32m"),
    "DeschedNotBegun": Case({EVICTIONS % "not_begun": BORN_AT_30}, "29m", "32m"),
    "DeschedCapacityNeeded": Case(
        {'desched_unrelieved_nodes{reason="pool_saturated"}': steady(1)}, "59m", "61m"
    ),
    "DeschedNodeStaysOverloaded": Case(
        {'desched_nodes{class="overloaded"}': steady(1)}, "1h59m", "2h1m"
    ),
    "DeschedExcessNotMovable": Case(
        {'desched_unrelieved_nodes{reason="excess_not_movable"}': steady(1)}, "5h59m", "6h1m"
    ),
    "DeschedNodesCoolingDown": Case({"desched_nodes_cooling_down": steady(1)}, "5h59m", "6h1m"),
}

HEALTHY = {
    "desched_last_success_timestamp_seconds": counter(60),
    'desched_leader{pod="a"}': steady(1),
    'desched_leader{pod="b"}': steady(0),
    "desched_leadership_changes_total": steady(1),
    'desched_policy_valid{pod="a"}': steady(1),
    'desched_policy_valid{pod="b"}': steady(1),
    CYCLES % "evicted": counter(0.2),
    EVICTIONS % "evicted": counter(0.05),
    EVICTIONS % "not_confirmed": counter(0.01),
    EVICTIONS % "throttled": steady(1),
    MOVES % "landed_as_forecast": counter(0.05),
    MOVES % "back_on_source": rising_at(300, 2),
    DRAINS % "landed": counter(0.05),
    DRAINS % "not_needed": counter(0.05),
    DRAINS % "time_over": rising_at(300, 2),
    "desched_state_problems_total": steady(3),
    "desched_taint_removal_failures_total": steady(2),
    "desched_evictions_in_flight": steady(1),
    "desched_other_deschedulers": steady(0),
    "desched_nodes_cooling_down": steady(0),
    "desched_forecast_bad_ratio": "0.2x540",
    "desched_forecast_bad_expected_ratio": "0.1x540",
    "desched_forecast_checks": steady(50),
    'desched_nodes{class="overloaded"}': "0x99 2x50 0x400",
    'desched_hold{reason="just_started"}': "1x15 0x520",
    'desched_paused{scope="everything"}': steady(0),
    'desched_paused{scope="workload"}': steady(2),
    'desched_unknown_nodes{reason="stale"}': "0x199 1x40 0x300",
    "desched_unknown_gpu_nodes": "0x199 1x40 0x300",
}
"""A day as it should be: what passes by itself, or is hours ago, alarms nobody."""


def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["spec"]["groups"]
    return found


def rules() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


@pytest.fixture
def promtool(binaries: dict[str, Path]) -> Path:
    assert binaries
    return find_or_build(["promtool"])["promtool"]


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": groups()}))
    return file


def samples(series: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def at(moment: str, alert: str, *, fires: bool) -> dict[str, Any]:
    rule = rules()[alert]
    firing = {"exp_labels": rule["labels"], "exp_annotations": rule["annotations"]}
    return {"eval_time": moment, "alertname": alert, "exp_alerts": [firing] if fires else []}


def write_tests(rule_file: Path) -> Path:
    """For promtool: each alert over what it is about, and all of them over a good day."""
    cases = [
        {
            "name": alert,
            "interval": "1m",
            "input_series": samples(case.series),
            "alert_rule_test": [
                at(case.quiet_at, alert, fires=False),
                at(case.fires_at, alert, fires=True),
            ],
        }
        for alert, case in CASES.items()
    ]
    good_day = {
        "name": "good day",
        "interval": "1m",
        "input_series": samples(HEALTHY),
        "alert_rule_test": [
            at(f"{hour}h", alert, fires=False) for alert in rules() for hour in range(2, HOURS)
        ],
    }
    file = rule_file.with_name("tests.yaml")
    file.write_text(
        json.dumps(
            {
                "rule_files": [str(rule_file)],
                "evaluation_interval": "1m",
                "tests": [*cases, good_day],
            }
        )
    )
    return file


def test_prometheus_takes_every_alert(promtool: Path, rule_file: Path) -> None:
    run(promtool, "check", "rules", "--lint=all", rule_file)


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == rules().keys()


def test_each_alert_fires_when_it_should_and_none_on_a_good_day(
    promtool: Path, rule_file: Path
) -> None:
    run(promtool, "test", "rules", write_tests(rule_file))
