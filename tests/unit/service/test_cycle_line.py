import msgspec
from structlog.testing import capture_logs

from desched.model.plan import HoldReason, NodeClass, NodeVerdict
from desched.service.cycle_line import MOST_NAMES, essentials, log_cycle
from tests.unit.service.reports import HELD, REPORT


def test_the_line_carries_the_essentials():
    assert essentials(REPORT) == {
        "cycle": 7,
        "result": "evicted",
        "mode": "evict",
        "nodes": {"overloaded": 1, "underloaded": 1, "unknown": 1},
        "planned": 1,
        "verdicts": {"evicted": 1},
        "refusals": {"bare_pod": 1, "not_needed": 2},
        "duration_seconds": 1.235,
        "observe_seconds": 1.0,
        "plan_seconds": 0.2,
        "overloaded": ["te3"],
        "unknown": {"stale": ["te1"]},
        "evictions": ["shop/web-1 from te3: cpu"],
    }


def test_a_hold_says_why():
    line = essentials(HELD)
    assert (line["hold"], line["hold_detail"]) == ("partial_data", "a shard is missing")


def test_a_large_cluster_does_not_make_a_long_line():
    nodes = tuple(NodeVerdict(f"node-{n}", NodeClass.OVERLOADED) for n in range(500))
    plan = msgspec.structs.replace(REPORT.plan, nodes=nodes)
    line = essentials(msgspec.structs.replace(REPORT, plan=plan))
    assert line["nodes"] == {"overloaded": 500}
    assert len(line["overloaded"]) == MOST_NAMES


def test_it_is_one_line_for_each_cycle():
    with capture_logs() as lines:
        log_cycle(REPORT)
    assert [(line["event"], line["log_level"]) for line in lines] == [("cycle.completed", "info")]


def test_a_hold_is_a_warning_unless_it_passes_by_itself():
    starting = msgspec.structs.replace(HELD.plan, hold=HoldReason.JUST_STARTED)
    with capture_logs() as lines:
        log_cycle(HELD)
        log_cycle(msgspec.structs.replace(HELD, plan=starting))
    assert [line["log_level"] for line in lines] == ["warning", "info"]
