from datetime import UTC, datetime

import pytest

from desched.history.timeline import Lines, LoadOverTime, Timeline
from desched.model.resources import Resource

LINES = Lines(target_ratio=0.8, stop_ratio=0.75, ceiling_ratio=0.7)


def timeline(*loads: LoadOverTime, step_seconds: float = 60.0) -> Timeline:
    return Timeline(
        name="a policy",
        started_at=datetime(2026, 1, 5, tzinfo=UTC),
        step_seconds=step_seconds,
        nodes=("te1", "te2"),
        loads=loads,
    )


def load(
    resource: Resource, *rows: tuple[float | None, ...], lines: Lines | None = LINES
) -> LoadOverTime:
    return LoadOverTime(resource, (lines, lines), rows)


CPU = load(Resource.CPU, (0.9, 0.9, 0.5, 0.9), (0.8, 0.1, 0.1, None))
MEMORY = load(Resource.MEMORY, (0.1, 0.1, 0.9, 0.1), (0.1, 0.1, 0.1, 0.1))


def test_a_node_counts_once_however_many_of_its_resources_are_above_their_targets() -> None:
    assert timeline(CPU).overload.node_minutes == 3
    assert timeline(CPU, MEMORY).overload.node_minutes == 4
    assert timeline(MEMORY, MEMORY).overload.node_minutes == 1


def test_an_episode_lasts_while_any_resource_is_above_its_target() -> None:
    assert timeline(CPU).overload.longest_episode_minutes == 2
    assert timeline(CPU, MEMORY).overload.longest_episode_minutes == 4


def test_each_node_has_its_own_overloaded_minutes_and_highest_load() -> None:
    assert timeline(CPU).overloaded_minutes == (3, 0)
    assert CPU.highest_ratios() == (0.9, 0.8)
    assert load(Resource.CPU, (None, 0.2), (None, None)).highest_ratios() == (0.2, None)


def test_steps_may_have_any_length() -> None:
    assert timeline(CPU, step_seconds=300.0).overload.node_minutes == 15
    assert timeline(CPU, step_seconds=300.0).overload.longest_episode_minutes == 10


@pytest.mark.parametrize(
    "loads",
    [
        (),
        (load(Resource.CPU, (), ()),),
        (load(Resource.CPU, (None, None), (None, None)),),
        (load(Resource.CPU, (0.99, 0.99), (0.99, 0.99), lines=None),),
        (load(Resource.CPU, (0.8, 0.8), (0.8, 0.8)),),
    ],
    ids=["no load", "no step", "unknown", "no rule", "at the target"],
)
def test_what_is_not_above_a_target_is_no_overload(loads: tuple[LoadOverTime, ...]) -> None:
    assert timeline(*loads).overload.node_minutes == 0
    assert timeline(*loads).overload.longest_episode_minutes == 0
