import io

import msgspec
from rich.console import Console

from desched.model.cluster import PodRef
from desched.model.plan import PlannedTaint
from desched.model.report import Mode, TaintChange
from desched.service.reports.cycle_table import print_report
from tests.unit.service.example_reports import EVICTION, REPORT


def printed(report):
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=120))
    return stream.getvalue()


def steering(mode, *changes):
    steered = msgspec.structs.replace(EVICTION, steered=("te1", "te3"))
    pods = (EVICTION.pod, PodRef("shop", "web-2", "uid-2"))
    taints = tuple(PlannedTaint("te1", f"the replacement of {pod} …", pod) for pod in pods)
    plan = msgspec.structs.replace(REPORT.plan, evictions=(steered,), taints=taints)
    return msgspec.structs.replace(REPORT, mode=mode, plan=plan, taints=changes)


def test_without_steering_nothing_is_said_of_it():
    assert "oft taint" not in printed(REPORT)


def test_a_dry_run_says_once_which_nodes_would_have_the_taint_and_why():
    text = printed(steering(Mode.DRY_RUN))
    assert text.count("te1 would have it: the replacement of shop/web-1 …") == 1
    assert "kept off te1, te3 by soft taints" in text


def test_a_run_says_what_was_set_what_went_and_what_did_not():
    text = printed(
        steering(
            Mode.EVICT,
            TaintChange("te1", tainted=True, why="a move needs it"),
            TaintChange("te2", tainted=False, why="its time is over"),
            TaintChange("te3", tainted=True, why="a move needs it", done=False, detail="403"),
        )
    )
    assert "te1 has it: a move needs it" in text
    assert "te2 has lost it: its time is over" in text
    assert "te3 was to get it (a move needs it), and did not: 403" in text
    assert "would have it" not in text
