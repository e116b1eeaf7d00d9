"""The measures of a day: what every table of load over time in the benchmarks shows.

A run is one contestant on one day, simulated or on a real control plane. Its figures are plain
values: they can be written as a line of JSON and compared with those of another version.
"""

import os
import platform
import statistics
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

import desched
from desched.lab.closed_loop import LoopResult
from desched.model.cluster import PodRef
from desched.model.landing import LandingChance
from desched.model.report import CycleReport, EvictionVerdict

PROBABILITY_BINS = (0.9, 0.7, 0.5, 0.3, 0.0)
"""The least probability of each bin."""
SURE_PROBABILITY, LEAST_HITS_OF_SURE = 0.9, 0.9
LEAST_HITS = 0.75
"""The aims for landings on the node that the plan names first: of the sure ones, and of all."""


class Landing(msgspec.Struct, frozen=True, array_like=True):
    """The probability of the node that the plan named first, and whether the pod landed there."""

    probability: float
    hit: bool


class Run(msgspec.Struct, frozen=True):
    """The contestant, its day, and the version of desched."""

    contestant: str
    kind: str
    regime: str
    seed: int
    nodes: int
    version: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. See `LoopResult` and `Tally` for the fields of the same name.

    `brief_evictions` met an overload that would have been brief (see `benchmarks.hindsight`); None
    if that is not known. `acting_seconds` and what follows is of desched alone.
    """

    overload_node_minutes: float
    above_90_node_minutes: float
    full_cpu_node_minutes: float
    excess_point_minutes: float
    unmet_cpu_node_minutes: float
    evictions: int
    replica_repeats: int
    share_within_hour: float
    came_back: int
    landed_overloaded: int
    pending_minutes: float
    cpu_seconds: float
    brief_evictions: int | None = None
    taints: int = 0
    most_tainted: int = 0
    acting_seconds: float = 0.0
    landings: tuple[Landing, ...] = ()
    results: dict[str, int] = {}
    stays: dict[str, int] = {}


class Line(msgspec.Struct, frozen=True):
    """A line of a file of results."""

    run: Run
    figures: Figures


def figures_of(result: LoopResult, cpu_seconds: float, **others: object) -> Figures:
    """The figures of a result; `others` are those that it does not have."""
    own = {
        "overload_node_minutes": result.overload.node_minutes,
        "above_90_node_minutes": result.overload.above_90_node_minutes,
        "full_cpu_node_minutes": result.overload.full_cpu_node_minutes,
        "excess_point_minutes": result.overload.excess_point_minutes,
        "unmet_cpu_node_minutes": result.unmet_cpu_node_minutes,
        "evictions": len(result.moves),
        "replica_repeats": result.replica_repeats,
        "share_within_hour": result.share_within_hour,
        "came_back": result.came_back,
        "landed_overloaded": result.landed_overloaded,
        "pending_minutes": result.pending_minutes,
        "cpu_seconds": cpu_seconds,
    }
    return msgspec.convert({**own, **others}, Figures)


def named_first(report: CycleReport) -> dict[PodRef, LandingChance]:
    """The evicted pods of a cycle, with the node that the plan names first for the replacement."""
    evicted = {o.pod for o in report.outcomes if o.verdict is EvictionVerdict.EVICTED}
    return {e.pod: e.landing[0] for e in report.plan.evictions if e.pod in evicted and e.landing}


def landings_of(result: LoopResult, named: Mapping[PodRef, LandingChance]) -> tuple[Landing, ...]:
    """Each landing whose node was named before, by the evicted pod."""
    return tuple(
        Landing(named[move.ref].probability, named[move.ref].node == move.landed_on)
        for move in result.moves
        if move.landed_on and move.ref in named
    )


@cache
def version() -> str:
    """The commit of desched's checkout, with `+` if files differ from it."""
    root = Path(desched.__file__).parent
    described = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"]
    found = subprocess.run(described, capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout.strip() or "unknown"


def measured_by() -> str:
    """What a figure depends on: the version, its commit, and the machine."""
    return (
        f"desched {desched.__version__} ({version()}), Python {platform.python_version()}, "
        f"numpy {np.__version__}, {platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    )


# --- what is shown ----------------------------------------------------------------------------

Runs = Sequence[Figures]
Value = Callable[[Figures], float]
Column = tuple[str, int, Callable[[Runs], str]]
"""Its heading, its width, and the text for a contestant's runs."""


def _spread(value: Value) -> Callable[[Runs], str]:
    def show(runs: Runs) -> str:
        values = [value(run) for run in runs]
        return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"

    return show


def _mean(value: Value, digits: int = 0) -> Callable[[Runs], str]:
    return lambda runs: f"{statistics.mean(map(value, runs)):,.{digits}f}"


def _share_of_evictions(count: Value) -> Callable[[Runs], str]:
    def show(runs: Runs) -> str:
        return f"{sum(map(count, runs)) / max(1, sum(run.evictions for run in runs)):.1%}"

    return show


def brief_share(runs: Runs) -> str:
    """The share of the evictions that met an overload which would have been brief."""
    if any(run.brief_evictions is None for run in runs):
        return "-"
    return _share_of_evictions(lambda run: run.brief_evictions or 0)(runs)


def saved_per_eviction(runs: Runs, nobody: Runs) -> str:
    """The node-minutes of overload that an eviction saved."""
    evictions = sum(run.evictions for run in runs)
    left = sum(run.overload_node_minutes for run in runs)
    saved = sum(run.overload_node_minutes for run in nobody) - left
    return f"{saved / evictions:,.1f}" if evictions and len(runs) == len(nobody) else "-"


COLUMNS: tuple[Column, ...] = (
    ("overload node-min", 26, _spread(lambda run: run.overload_node_minutes)),
    (">90 %", 8, _mean(lambda run: run.above_90_node_minutes)),
    ("CPU full", 10, _mean(lambda run: run.full_cpu_node_minutes)),
    ("points x min", 14, _mean(lambda run: run.excess_point_minutes)),
    ("CPU not given", 15, _mean(lambda run: run.unmet_cpu_node_minutes, digits=1)),
    ("evictions", 21, _spread(lambda run: run.evictions)),
    ("brief", 8, brief_share),
    ("again", 8, _share_of_evictions(lambda run: run.replica_repeats)),
    ("of one", 8, lambda runs: f"{max(run.share_within_hour for run in runs):.0%}"),
    ("back", 8, _share_of_evictions(lambda run: run.came_back)),
    ("overl.", 8, _share_of_evictions(lambda run: run.landed_overloaded)),
    ("taints", 8, _mean(lambda run: run.taints)),
    ("pending", 9, _mean(lambda run: run.pending_minutes)),
    ("s", 7, _mean(lambda run: run.cpu_seconds, digits=1)),
)
LEGEND = (
    "overload: median (smallest-largest) of node-minutes above a target; means of a day: "
    "node-minutes above 90 %, and with all CPU asked for; points above the target x node-minutes; "
    "CPU asked for and not given, as minutes of a node's CPU; soft taints; minutes that "
    "replacements were pending; CPU seconds. saved: minutes above a target, for each eviction. Of "
    "evictions: those from a node whose overload would have ended within 15 minutes, for an hour "
    "at least (brief); replicas moved again within the hour, "
    "back on the source, on a node overloaded three minutes later. of one: the largest share of "
    "a workload within an hour."
)


def show_table(found: Mapping[str, Runs], nobody: Runs | None = None) -> None:
    """A row for each contestant, with what it leaves of the overload that nobody relieves."""
    columns = COLUMNS
    if nobody:
        columns = (*COLUMNS[:1], _left_of(nobody), _saved_beside(nobody), *COLUMNS[1:])
    widest = max(map(len, found))
    print(" " * (widest + 2) + "".join(f"{heading:>{width}}" for heading, width, _ in columns))
    for name, runs in found.items():
        cells = "".join(f"{show(runs):>{width}}" for _, width, show in columns)
        print(f"  {name:<{widest}}{cells}")


def _saved_beside(nobody: Runs) -> Column:
    return "saved", 9, lambda runs: saved_per_eviction(runs, nobody)


def _left_of(nobody: Runs) -> Column:
    before = sum(run.overload_node_minutes for run in nobody)
    return (
        "left",
        9,
        lambda runs: f"{sum(run.overload_node_minutes for run in runs) / max(1, before):.1%}",
    )


def show_calibration(runs: Iterable[Figures]) -> None:
    """How often replacements landed on the node that was named first, by stated probability."""
    landings = list(chain.from_iterable(run.landings for run in runs))
    print("  Landed on the node that the plan names first, by its probability:")
    for name, some in by_probability(landings):
        print(f"    {name:<14} {_hits(some)}")
    sure = [landing for landing in landings if landing.probability >= SURE_PROBABILITY]
    show_aim(
        f"of those said with {SURE_PROBABILITY:.0%} and more: {_hits(sure)}",
        f"at least {LEAST_HITS_OF_SURE:.0%}",
        met=not sure or _hit_share(sure) >= LEAST_HITS_OF_SURE,
    )
    show_aim(
        f"on the node that is named first: {_hits(landings)}",
        f"at least {LEAST_HITS:.0%}",
        met=not landings or _hit_share(landings) >= LEAST_HITS,
    )


def by_probability(landings: Sequence[Landing]) -> Iterator[tuple[str, list[Landing]]]:
    """The landings in bins, with the name of each bin."""
    above = 1.01
    for least in PROBABILITY_BINS:
        name = f"{100 * least:.0f} % and more" if least else f"under {100 * above:.0f} %"
        yield name, [landing for landing in landings if least <= landing.probability < above]
        above = least


def _hits(landings: Sequence[Landing]) -> str:
    if not landings:
        return "no landing"
    said = statistics.mean(landing.probability for landing in landings)
    hits = sum(landing.hit for landing in landings)
    return f"{hits} of {len(landings)} ({_hit_share(landings):.1%}; said: {said:.1%})"


def _hit_share(landings: Sequence[Landing]) -> float:
    return sum(landing.hit for landing in landings) / len(landings)


def show_aim(text: str, aim: str, *, met: bool) -> None:
    """Whether an aim is met."""
    print(f"  {'met   ' if met else 'MISSED'}  {text} ({aim})")


def show_shares(title: str, counts: Iterable[Mapping[str, int]]) -> None:
    """The shares of what was counted, the most frequent first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    print(f"  {title}")
    for what, number in total.most_common():
        print(f"    {number / total.total():6.1%}  {what}")
