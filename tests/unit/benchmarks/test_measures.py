"""The judgement of a run beside the same day without a descheduler."""

import msgspec
import pytest

from benchmarks.aims import show_no_worse, worse_than_nobody
from benchmarks.measures import Figures, brief_share, saved_per_eviction, show_table

NOBODY = Figures(
    overload_node_minutes=1_000.0,
    above_90_node_minutes=100.0,
    full_cpu_node_minutes=10.0,
    excess_point_minutes=5_000.0,
    unmet_cpu_node_minutes=0.0,
    evictions=0,
    replica_repeats=0,
    share_within_hour=0.0,
    came_back=0,
    landed_overloaded=0,
    pending_minutes=0.0,
    cpu_seconds=1.0,
    brief_evictions=0,
)
BETTER = msgspec.structs.replace(
    NOBODY, overload_node_minutes=200.0, evictions=40, brief_evictions=10
)
FULLER = msgspec.structs.replace(BETTER, unmet_cpu_node_minutes=130.0)


def test_a_run_is_judged_by_all_measures_and_not_by_the_minutes_alone() -> None:
    assert worse_than_nobody(BETTER, NOBODY) == []
    assert worse_than_nobody(FULLER, NOBODY) == ["CPU not given 0 -> 130"]


def test_a_negligible_difference_does_not_count() -> None:
    assert (
        worse_than_nobody(msgspec.structs.replace(BETTER, above_90_node_minutes=101), NOBODY) == []
    )


def test_a_line_says_on_which_days_a_contestant_is_worse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_no_worse({"no descheduler": [NOBODY] * 2, "desched": [BETTER, FULLER]})
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("  MISSED  desched: 1 of 2 days no worse than nobody (in minutes above")
    assert line.endswith("day 1: CPU not given 0 -> 130)")


def test_the_saved_minutes_are_divided_by_the_evictions() -> None:
    assert saved_per_eviction([BETTER, FULLER], [NOBODY, NOBODY]) == "20.0"
    assert saved_per_eviction([NOBODY], [NOBODY]) == "-"


def test_the_share_of_brief_evictions_may_be_unknown() -> None:
    assert brief_share([BETTER, FULLER]) == "25.0%"
    assert brief_share([BETTER, msgspec.structs.replace(BETTER, brief_evictions=None)]) == "-"


def test_a_table_has_both(capsys: pytest.CaptureFixture[str]) -> None:
    show_table({"desched": [BETTER]}, [NOBODY])
    heading, row = capsys.readouterr().out.splitlines()
    assert {"saved", "brief"} <= set(heading.split())
    assert {"20.0", "25.0%"} <= set(row.split())
