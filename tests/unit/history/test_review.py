"""What a review makes of a logbook."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from desched.history.review import ReviewedMode, review
from desched.history.timeline import IdleTotal, Lines, RefusalTotal
from desched.model.plan import RefusalReason
from desched.model.report import Mode
from desched.model.resources import Resource
from desched.model.state import MoveResult
from desched.views.comparison import CPU_UNKNOWN
from desched.views.review import review_view
from tests.unit.example_logbook import CYCLE, dry_run, logbook
from tests.unit.service.example_reports import POD, REPORT, STARTED_AT, record

LONG_AGO = STARTED_AT - timedelta(days=7)


def test_a_dry_run_of_an_hour():
    hot = [dry_run(i) for i in range(6)]
    calm = [dry_run(i, ratio=0.5) for i in range(6, 12)]
    found = review(logbook(*hot, *calm), LONG_AGO)

    assert found.mode is ReviewedMode.DRY_RUN
    assert (found.started_at, found.ended_at) == (STARTED_AT, STARTED_AT + 11 * CYCLE)
    assert found.cycles == 12
    assert found.covered_seconds == 600 + 11 * 300  # the first one stands for the longest gap
    assert found.overload.node_minutes == 10 + 5 * 5
    assert found.overload.longest_episode_minutes == 35
    assert found.overload.nodes == 1
    assert found.relieved_share == 1.0
    assert found.evictions == 1
    assert found.evictions_per_day == pytest.approx(86_400 / 3_900)
    assert [(w.workload, w.evictions) for w in found.workloads] == [("Deployment shop/web", 1)]
    te3, te5 = found.nodes
    assert (te3.overloaded_minutes, te3.highest[Resource.CPU], te3.evictions) == (35, 0.9, 1)
    assert (te5.overloaded_minutes, te5.highest[Resource.CPU], te5.evictions) == (0, 0.1, 0)


@pytest.mark.parametrize(("ratio", "still"), [(0.5, 0), (0.9, 1)])
def test_nodes_from_which_pods_were_evicted_are_overloaded_now_or_not(
    ratio: float, still: int
) -> None:
    later = replace(dry_run(1, ratio=ratio, planned=False), mode=Mode.EVICT)
    found = review(logbook(REPORT, later), LONG_AGO)
    assert (found.left_nodes, found.still_overloaded) == (1, still)
    assert review(logbook(dry_run(0)), LONG_AGO).left_nodes == 0


def test_chart_sentence_and_json_have_the_numbers_of_the_cycles():
    """Two of three cycles found a node overloaded whose mean load is below its target."""
    cycles = [dry_run(i, ratio=ratio, every=CYCLE / 3) for i, ratio in enumerate((0.82, 0.82, 0.6))]
    calm = dry_run(3, ratio=0.5, every=CYCLE / 3)
    found = review(logbook(*cycles, calm), LONG_AGO)

    te3 = found.timeline.nodes.index("te3")
    assert found.timeline.overloaded[te3].tolist() == pytest.approx([2 / 3, 0])
    assert found.timeline.overloaded_shares[te3] == pytest.approx((2 / 3, 0))
    minutes = found.overload.node_minutes
    assert minutes == pytest.approx(2 / 3 * (600 + 2 * 100) / 60)
    assert found.nodes[te3].overloaded_minutes == pytest.approx(minutes)
    assert found.most_overloaded == pytest.approx(2 / 3)
    assert found.most_at == STARTED_AT
    assert found.last_overloaded == 0
    sentences = review_view(found).summary
    assert f"for {minutes:.0f} node-minutes in all" in sentences[0]
    assert sentences[1] == (
        f"Most were overloaded in the 5 min from {STARTED_AT:%Y-%m-%d %H:%M} UTC: 0.7; in the last "
        "5 min: none."
    )


def test_the_severity_is_that_of_the_means_of_steps_and_of_the_covered_time():
    found = review(
        logbook(dry_run(0, ratio=0.95), *(dry_run(i, ratio=0.997) for i in (1, 2))), LONG_AGO
    )

    assert found.overload.above_90_node_minutes == 10 + 5 + 5
    assert found.overload.full_cpu_node_minutes == 5 + 5
    assert found.overload.excess_point_minutes == pytest.approx(10 * 15 + 2 * 5 * 20)
    assert found.overload.unmet_cpu_node_minutes is None


def test_without_the_load_of_cpu_the_time_at_100_percent_is_left_out():
    cycle = dry_run(0)
    nodes = tuple(
        replace(node, pressures=tuple(replace(p, resource=Resource.MEMORY) for p in node.pressures))
        for node in cycle.plan.nodes
    )
    found = review(logbook(replace(cycle, plan=replace(cycle.plan, nodes=nodes))), LONG_AGO)

    assert found.overload.full_cpu_node_minutes is None
    assert CPU_UNKNOWN in "".join(review_view(found).notes[0][1])
    assert "node-minutes at 100 % CPU" not in {each.label for each in review_view(found).figures}


def test_its_timeline_has_the_loads_with_their_lines_and_the_reasons():
    found = review(logbook(dry_run(0, planned=False), dry_run(2, planned=False)), LONG_AGO)
    timeline = found.timeline
    (load,) = timeline.loads

    assert load.ratios == ((0.9, None, 0.9), (0.1, None, 0.1))
    assert load.lines[0] == Lines(0.8, 0.75, 0.7)
    assert timeline.refusals == (
        RefusalTotal(RefusalReason.NOT_NEEDED, 2, 4),
        RefusalTotal(RefusalReason.BARE_POD, 1, 2),
    )
    assert timeline.idle == (IdleTotal(RefusalReason.NOT_NEEDED, 2),)
    assert found.relieved_share == 0.0
    assert found.evictions == 0


def test_only_what_happened_since_then_counts():
    book = logbook(*(dry_run(i) for i in range(3)), *(dry_run(i, ratio=0.5) for i in range(40, 43)))
    found = review(book, STARTED_AT + 39 * CYCLE)

    assert found.started_at == STARTED_AT + 39 * CYCLE
    assert (found.cycles, found.evictions, found.overload.node_minutes) == (3, 0, 0)
    assert found.relieved_share is None
    assert found.timeline.steps == 4
    assert review(book, LONG_AGO).evictions == 1


def test_a_time_after_the_newest_cycle_shows_the_last_step():
    assert review(logbook(dry_run(0)), STARTED_AT + timedelta(days=9)).cycles == 1


def test_evictions_have_their_results():
    end = replace(record("x", MoveResult.BACK_ON_SOURCE), pod=POD, landed_on="te3")
    settled = replace(dry_run(1, planned=False), mode=Mode.EVICT, settled=(end,))
    found = review(logbook(REPORT, settled), LONG_AGO)

    assert found.mode is ReviewedMode.EVICT
    assert found.results == {"back_on_source": 1}
    assert found.verdicts == {"evicted": 1}
    (eviction,) = found.timeline.evictions
    assert (eviction.result, eviction.landed_on) == (MoveResult.BACK_ON_SOURCE, "te3")
    assert review(logbook(REPORT, dry_run(1)), LONG_AGO).mode is ReviewedMode.PARTLY


def test_codes_of_a_newer_desched_are_left_out():
    book = logbook(dry_run(0), REPORT)
    (step, *more) = book.steps
    step = replace(step, refused={"too_pretty": (1, 1)}, idle={"too_lazy": 1})
    moves = tuple(replace(move, result="fell_off") for move in book.moves)
    found = review(replace(book, steps=(step, *more), moves=moves), LONG_AGO)

    assert found.timeline.refusals == ()
    assert found.timeline.idle == ()
    assert found.timeline.evictions[0].result is None


def test_it_says_from_when_on_evictions_are_kept():
    book = replace(logbook(dry_run(0), dry_run(1)), moves_since=STARTED_AT + CYCLE)

    assert review(book, LONG_AGO).moves_since == STARTED_AT + CYCLE
    assert review(book, STARTED_AT + CYCLE).moves_since is None
