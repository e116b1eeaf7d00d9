import io

import msgspec
from rich.console import Console

from desched.model.cluster import PodRef
from desched.model.plan import PlannedTaint, TaintRemoval, Unsteered
from desched.model.report import Mode, TaintChange
from tests.shown import print_shown
from tests.unit.service.example_reports import (
    EVICTION,
    REPORT,
)


def printed(report):
    stream = io.StringIO()
    print_shown(report, Console(file=stream, width=120))
    return stream.getvalue()


def steering(mode, *changes):
    steered = msgspec.structs.replace(EVICTION, steered=("te1", "te3"))
    pods = (EVICTION.pod, PodRef("shop", "web-2", "uid-2"))
    taints = tuple(PlannedTaint("te1", f"the replacement of {pod} …", pod) for pod in pods)
    plan = msgspec.structs.replace(REPORT.plan, evictions=(steered,), taints=taints)
    return msgspec.structs.replace(REPORT, mode=mode, plan=plan, taints=changes)


def test_without_steering_there_is_no_section_about_it():
    assert "oft taint" not in printed(REPORT)


def test_what_the_missing_right_to_steer_costs_is_in_the_report():
    plan = msgspec.structs.replace(REPORT.plan, unsteered=Unsteered(7, 3))
    text = " ".join(printed(msgspec.structs.replace(REPORT, plan=plan)).split())
    assert (
        "7 pods on 3 nodes could move with soft taints; allow them with "
        "`kubectl apply -k deploy/overlays/evict`." in text
    )


def test_a_dry_run_lists_each_node_that_would_get_the_taint_once_with_the_reason():
    text = printed(steering(Mode.DRY_RUN))
    assert text.count("te1 would get it: the replacement of shop/web-1 …") == 1
    assert "kept off te1, te3 by soft taints" in text


def test_a_dry_run_lists_the_nodes_that_would_lose_it_first():
    report = steering(Mode.DRY_RUN)
    removed = (TaintRemoval("te9", "its time is over"),)
    plan = msgspec.structs.replace(report.plan, removed_taints=removed)
    text = printed(msgspec.structs.replace(report, plan=plan))
    assert text.index("te9 would lose it: its time is over") < text.index("te1 would get it")


def test_a_run_lists_taints_that_were_set_or_removed_or_could_not_be():
    text = printed(
        steering(
            Mode.EVICT,
            TaintChange("te1", tainted=True, why="a move needs it"),
            TaintChange("te2", tainted=False, why="its time is over"),
            TaintChange("te3", tainted=True, why="a move needs it", done=False, detail="403"),
        )
    )
    assert "te1 has it: a move needs it" in text
    assert "te2 lost it: its time is over" in text
    assert "te3 did not get it (a move needs it): 403" in text
    assert "would get it" not in text
