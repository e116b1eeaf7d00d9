"""Every kind of day by its name: its trace, its requests, and the day itself."""

from benchmarks.day import Kind, Regime, a_day
from benchmarks.eventful_days import (
    day_with_cronjobs,
    day_with_life,
    relieved_node,
    with_own_minutes,
)
from benchmarks.other_days import DRAWS, other_day
from benchmarks.trace import Jobs, Trace
from desched.lab.closed_loop import Day

WITH_LOW_REQUESTS = (Kind.MANY_WORKLOADS, Kind.FIVE_LARGE, Kind.SAME_USAGE)


def trace_of(kind: Kind) -> Trace:
    """The trace of this kind of day."""
    return DRAWS[kind].trace if kind in DRAWS else Trace.GOOGLE


def regimes_of(kind: Kind) -> tuple[Regime, ...]:
    """The requests with which there are days of this kind."""
    if kind in DRAWS:
        return (DRAWS[kind].requests,)
    return (Regime.FAIR, Regime.LOW) if kind in WITH_LOW_REQUESTS else (Regime.FAIR,)


def day_of(kind: Kind, seed: int, regime: Regime, jobs: Jobs) -> Day:
    """The day of this kind and seed; `jobs` are those of its trace."""
    match kind:
        case Kind.CRONJOBS | Kind.CRONJOBS_ANY_MINUTE:
            day = day_with_cronjobs(jobs, seed)
        case Kind.LIFE | Kind.LIFE_ANY_MINUTE:
            day = day_with_life(jobs, seed)
        case Kind.RELIEVED_NODE:
            day = relieved_node()
        case _ if kind in DRAWS:
            day = other_day(jobs, seed, DRAWS[kind])
        case _:
            day = a_day(jobs, seed, regime, kind)
    any_minute = kind in {Kind.CRONJOBS_ANY_MINUTE, Kind.LIFE_ANY_MINUTE}
    return with_own_minutes(day, seed) if any_minute else day
