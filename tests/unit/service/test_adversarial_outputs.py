"""Every text in a report may be hostile; nothing that is made of it may be."""

import json
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from desched.cli import main
from desched.model.facts import Facts
from desched.model.landing import LandingChance
from desched.model.plan import PlannedTaint, ResourceRelief
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    NotActing,
    Outcome,
    TaintChange,
)
from desched.model.resources import Resource
from desched.service.telemetry.kubernetes_events import move_note
from desched.service.telemetry.metrics import ServiceMetrics
from tests.properties.mutations import STEERING_TEXTS
from tests.properties.outputs import every_output, harmless
from tests.shown import shown
from tests.unit.service.example_reports import (
    BACK,
    EVICTION,
    FOLLOWED_UP,
    HELD,
    POD,
    REPORT,
    STARTED_AT,
)

HOSTILE = "".join(STEERING_TEXTS) + '<script>alert(1)</script>[bold]"}\\ [/]'


def poisoned(value: Any) -> Any:
    """The same with every text hostile; enumerations and the names of plugins stay."""
    match value:
        case Enum() | datetime():
            return value
        case str():
            return f"{value}{HOSTILE}"
        case msgspec.Struct():
            names = value.__struct_fields__
            return type(value)(**{name: poisoned(getattr(value, name)) for name in names})
        case tuple():
            items = map(poisoned, value)
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case dict():
            return {
                key if isinstance(item, Facts) else poisoned(key): poisoned(item)
                for key, item in value.items()
            }
        case _:
            return value


def with_all(report: CycleReport) -> CycleReport:
    """The report with something in each of its parts."""
    eviction = msgspec.structs.replace(
        EVICTION,
        relief=(ResourceRelief(Resource.CPU, 0.1),),
        landing=(LandingChance("te5", 0.5),),
        pool="gpu",
        steered=("te3",),
    )
    return msgspec.structs.replace(
        report,
        plan=msgspec.structs.replace(
            report.plan,
            nodes=tuple(
                msgspec.structs.replace(n, detail="d", pool="p") for n in report.plan.nodes
            ),
            evictions=(eviction,),
            refusals=tuple(msgspec.structs.replace(r, detail="d") for r in report.plan.refusals),
            taints=(PlannedTaint("te3", "hot", POD),),
        ),
        outcomes=(Outcome(POD, "te3", EvictionVerdict.FORBIDDEN, STARTED_AT, "the webhook says"),),
        taints=(TaintChange("te3", tainted=True, why="hot", done=False, detail="forbidden"),),
        not_acting=NotActing.PAUSED,
        not_acting_detail="paused",
        other_deschedulers=("sigs in kube-system",),
        acknowledged_deschedulers=("Volcano descheduler in batch",),
    )


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("result", CycleResult)
def test_every_output_of_a_report_is_harmless(mode: Mode, result: CycleResult) -> None:
    for report in (with_all(FOLLOWED_UP), with_all(HELD)):
        every_output(poisoned(msgspec.structs.replace(report, mode=mode, result=result)))


def test_json_has_the_original_text() -> None:
    report = poisoned(with_all(REPORT))
    assert json.loads(shown(report, "json"))["target"] == report.target


def test_details_do_not_pass_for_lines_of_the_summary() -> None:
    forged = msgspec.structs.replace(
        HELD, plan=msgspec.structs.replace(HELD.plan, hold_detail="x\nEvicted all\u2028of it")
    )
    summary = " ".join(shown(forged, "table").splitlines()[-2:])
    assert r"(x\nEvicted all\u2028of it)." in summary


def test_the_exposition_can_be_read_whatever_nodes_are_called() -> None:
    metrics = ServiceMetrics(Mode.EVICT)
    metrics.cycle_completed(poisoned(with_all(REPORT)))
    families = text_string_to_metric_families(metrics.exposition().decode())
    nodes = {s.labels["node"] for f in families for s in f.samples if "node" in s.labels}
    assert nodes == {f"te3{HOSTILE}", f"te5{HOSTILE}"}


def test_a_note_on_a_move_names_the_pod() -> None:
    assert BACK.pod.name in move_note(BACK)


def test_an_error_of_the_command_line_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "--policy", f"/nowhere/{HOSTILE.replace(chr(0), '')}"]) == 2
    harmless(capsys.readouterr().err)
