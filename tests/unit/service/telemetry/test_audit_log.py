"""The audit trail: a line for each eviction with plan and forecast, and one for its result."""

import io
import json

import pytest
import structlog
from msgspec.structs import replace

from desched.model.landing import LandingChance
from desched.model.report import EvictionVerdict, Mode, NotActing, Outcome
from desched.model.state import MoveResult
from desched.plugins.gpus.drains.drain import GPU_DEMAND
from desched.service.telemetry.audit_log import AuditLog
from tests.unit.service.example_reports import (
    DRAINING,
    EVICTION,
    POD,
    REPORT,
    STARTED_AT,
    drain_move,
    record,
)
from tests.unit.service.test_adversarial_outputs import poisoned

FORECAST = replace(EVICTION, landing=(LandingChance("te5", 0.9),), landing_risk=0.04)
PLANNED = replace(REPORT, plan=replace(REPORT.plan, evictions=(FORECAST,)))
END = replace(
    record("web-1", MoveResult.LANDED_AS_FORECAST),
    pod=POD,
    landed_on="te5",
    landing_risk=0.04,
    settled_at=STARTED_AT,
)


def lines(*reports):
    out = io.StringIO()
    log = AuditLog(out)
    for report in reports:
        log.publish(report)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_eviction_has_its_plan_forecast_and_verdict():
    (line,) = lines(PLANNED)

    assert (line["version"], line["event"]) == ("desched.io/audit/v1", "eviction")
    assert (line["cluster"], line["cycle"], line["policy"]) == ("in-cluster", 7, "policy.yaml")
    assert line["at"] == "2026-03-04T12:00:00Z"
    assert line["pod"] == {"namespace": "shop", "name": "web-1", "uid": "uid-1"}
    assert (line["node"], line["workload"]) == ("te3", "Deployment shop/web")
    assert line["verdict"] == "evicted"
    assert line["plan"]["reason"] == "cpu"
    assert line["plan"]["cpu_millicores"] == 500.0
    assert line["forecast"]["expected_node"] == "te5"
    assert line["forecast"]["landing_risk"] == 0.04
    assert line["forecast"]["landing"][0]["node"] == "te5"


@pytest.mark.parametrize("verdict", EvictionVerdict)
def test_an_eviction_that_did_not_begin_has_a_line_too(verdict):
    outcome = Outcome(POD, "te3", verdict, STARTED_AT, "why")
    (line,) = lines(replace(PLANNED, outcomes=(outcome,)))

    assert (line["verdict"], line["detail"]) == (verdict.value, "why")


def test_a_result_has_a_line_of_its_own_once():
    settled = replace(PLANNED, outcomes=(), settled=(END,))
    (line,) = lines(settled, settled)

    assert (line["event"], line["result"]) == ("result", "landed_as_forecast")
    assert line["landed_on"] == "te5"
    assert line["forecast"]["expected_node"] == "te5"
    assert line["forecast"]["landing_risk"] == 0.04
    assert line["evicted_at"] == "2026-03-04T11:00:00Z"


def test_a_dry_run_and_a_replica_that_does_not_lead_have_no_lines():
    dry = replace(PLANNED, mode=Mode.DRY_RUN, settled=(END,))
    standby = replace(PLANNED, not_acting=NotActing.NOT_LEADING, settled=(END,))

    assert lines(dry, standby) == []


def test_hostile_names_stay_on_their_line():
    out = io.StringIO()
    AuditLog(out).publish(poisoned(PLANNED))

    (line,) = out.getvalue().splitlines()
    assert line.isprintable()
    assert json.loads(line)["pod"]["name"].startswith("web-1")


def test_a_line_that_cannot_be_written_is_in_the_log_and_stops_nothing():
    closed = io.StringIO()
    closed.close()
    with structlog.testing.capture_logs() as logs:
        AuditLog(closed).publish(PLANNED)

    assert [line["event"] for line in logs] == ["audit.not_written"]
    assert logs[0]["line"]["pod"] == POD


def test_both_lines_have_the_purpose():
    moved = replace(END, purpose=GPU_DEMAND)
    requested, result = lines(replace(drain_move(DRAINING), settled=(moved,)))

    assert (requested["purpose"], result["purpose"]) == ("gpu_demand", "gpu_demand")
    assert lines(PLANNED)[0]["purpose"] == "relief"
