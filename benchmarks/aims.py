"""What desched is expected to reach in the closed loop, by kind of day."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.day import Kind
from benchmarks.measures import Figures, show_aim

NOBODY, DESCHED, HALF = "no descheduler", "desched", "half compared"

Found = Mapping[str, Sequence[Figures]]
"""The runs of each contestant on the same days."""
Value = Callable[[Figures], float]


class Aim(NamedTuple):
    """The most of something that a contestant may have."""

    what: str
    value: Callable[[str, Found], float]
    most: float
    contestant: str = DESCHED
    form: str = ".1%"


def _left(value: Value) -> Callable[[str, Found], float]:
    """The sum over the days, as a share of what it is without a descheduler."""

    def share(name: str, found: Found) -> float:
        before = sum(map(value, found[NOBODY]))
        return sum(map(value, found[name])) / before if before else 0.0

    return share


def _worst_day(name: str, found: Found) -> float:
    """The largest share of the overload that is left of any day."""
    pairs = zip(found[name], found[NOBODY], strict=True)
    return max(a.overload_node_minutes / max(1, b.overload_node_minutes) for a, b in pairs)


def _of_evictions(count: Value) -> Callable[[str, Found], float]:
    def share(name: str, found: Found) -> float:
        return sum(map(count, found[name])) / max(1, sum(run.evictions for run in found[name]))

    return share


def _evictions_a_day(name: str, found: Found) -> float:
    return sum(run.evictions for run in found[name]) / len(found[name])


def _most_left(most: float, contestant: str = DESCHED) -> Aim:
    value = _left(lambda run: run.overload_node_minutes)
    return Aim("of the overload left", value, most, contestant)


def _most_evictions(most: int, contestant: str = DESCHED) -> Aim:
    return Aim("evictions on a day", _evictions_a_day, most, contestant, ".0f")


def _most_too_hot(most: float, contestant: str = DESCHED) -> Aim:
    value = _of_evictions(lambda run: run.landed_overloaded + run.came_back)
    return Aim("of landings too hot", value, most, contestant)


AIMS: dict[Kind, tuple[Aim, ...]] = {
    Kind.MANY_WORKLOADS: (
        _most_left(0.09),
        _most_evictions(120),
        _most_too_hot(0.03),
        _most_left(0.12, HALF),
        _most_evictions(120, HALF),
    ),
    Kind.FIVE_LARGE: (_most_left(0.075), _most_evictions(250)),
    Kind.FULL: (_most_left(0.075), _most_evictions(250)),
    Kind.SAME_USAGE: (_most_left(0.25),),
    Kind.CLIMBING_HOURS: (
        Aim("of the time above 90 % left", _left(lambda run: run.above_90_node_minutes), 0.05),
        Aim("of the points x minutes left", _left(lambda run: run.excess_point_minutes), 0.4),
        _most_evictions(60),
    ),
    Kind.SATURATED: (Aim("of the overload left on the worst day", _worst_day, 1.0),),
}
AGAIN = Aim(
    "of replicas moved again within the hour", _of_evictions(lambda run: run.replica_repeats), 0.01
)


NO_WORSE: dict[str, Value] = {
    "minutes above a target": lambda run: run.overload_node_minutes,
    "points x minutes": lambda run: run.excess_point_minutes,
    "minutes above 90 %": lambda run: run.above_90_node_minutes,
    "CPU not given": lambda run: run.unmet_cpu_node_minutes,
}
"""What nobody may be better in; the time above a target alone hides how far nodes are above it."""
NEGLIGIBLE = 1.0
"""A difference in any of these that does not count."""


def worse_than_nobody(run: Figures, nobody: Figures) -> list[str]:
    """In what a run is worse than the same day without a descheduler, with both figures."""
    pairs = [(name, value(nobody), value(run)) for name, value in NO_WORSE.items()]
    return [
        f"{name} {before:,.0f} -> {after:,.0f}"
        for name, before, after in pairs
        if after > before + NEGLIGIBLE
    ]


def show_no_worse(found: Found) -> None:
    """For each contestant, whether each of its days is no worse than without a descheduler."""
    for name, runs in found.items():
        if name == NOBODY or not found.get(NOBODY):
            continue
        worse = [worse_than_nobody(*pair) for pair in zip(runs, found[NOBODY], strict=True)]
        good = sum(not each for each in worse)
        text = f"{name}: {good} of {len(runs)} days no worse than nobody"
        reasons = "; ".join(f"day {i}: {', '.join(each)}" for i, each in enumerate(worse) if each)
        aim = f"in {', '.join(NO_WORSE)}"
        show_aim(text, f"{aim}: {reasons}" if reasons else aim, met=good == len(runs))


def show_aims(kind: Kind, found: Found) -> None:
    """Whether the aims for a kind of day are met, as far as their contestants ran."""
    for aim in (*AIMS.get(kind, ()), AGAIN):
        if {aim.contestant, NOBODY} <= set(found):
            value = aim.value(aim.contestant, found)
            text = f"{aim.contestant}: {value:{aim.form}} {aim.what}"
            show_aim(text, f"at most {aim.most:{aim.form}}", met=value <= aim.most)
