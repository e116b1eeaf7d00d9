"""The tables of results.md from files of results: `python -m benchmarks.tables FILE ...`.

`python -m benchmarks.closed_loop --json FILE` writes such a file; so does a real day.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from benchmarks.aims import DESCHED, NOBODY
from benchmarks.compare import Results, read_results
from benchmarks.measures import Figures, brief_share, by_probability, saved_per_eviction

Value = Callable[[Figures], float]
SEVERITY: dict[str, Value] = {
    "node-minutes above the target": lambda run: run.overload_node_minutes,
    "above 90 %": lambda run: run.above_90_node_minutes,
    "all CPU asked for": lambda run: run.full_cpu_node_minutes,
    "points x node-minutes": lambda run: run.excess_point_minutes,
    "CPU not given": lambda run: run.unmet_cpu_node_minutes,
    "evictions": lambda run: run.evictions,
}
LEFT = ("node-minutes above the target", "above 90 %", "points x node-minutes", "CPU not given")


def _row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


def _head(*cells: str) -> None:
    _row(*cells)
    print("|" + "---|" * len(cells))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _too_hot(runs: Sequence[Figures]) -> str:
    evictions = sum(run.evictions for run in runs)
    bad = sum(run.landed_overloaded + run.came_back for run in runs)
    return _percent(bad / evictions) if evictions else "-"


def _strategies(found: dict[str, list[Figures]]) -> None:
    """Means of a day, for each strategy."""
    _head("strategy", *SEVERITY, "saved by each", "brief", "too hot")
    for name, runs in found.items():
        means = (f"{statistics.mean(map(value, runs)):,.0f}" for value in SEVERITY.values())
        saved = saved_per_eviction(runs, found.get(NOBODY, ()))
        _row(name, *means, saved, brief_share(runs), _too_hot(runs))


def _days(by_day: dict[str, dict[str, list[Figures]]]) -> None:
    """What desched leaves of each measure, for each kind of day."""
    _head("days", "number", *(f"{name} left" for name in LEFT), "evictions a day", "too hot")
    for day, found in by_day.items():
        runs, nobody = found.get(DESCHED, []), found.get(NOBODY, [])
        if runs and len(runs) == len(nobody):
            shares = (_share(runs, nobody, SEVERITY[name]) for name in LEFT)
            evictions = f"{statistics.mean(run.evictions for run in runs):.0f}"
            _row(day, str(len(runs)), *shares, evictions, _too_hot(runs))


def _share(runs: Sequence[Figures], nobody: Sequence[Figures], value: Value) -> str:
    before = sum(map(value, nobody))
    return _percent(sum(map(value, runs)) / before) if before else "-"


def _landings(runs: Sequence[Figures]) -> None:
    """How often replacements landed where the plan said, for each stated probability."""
    _head("said", "landings", "mean of what was said", "landed there")
    landings = list(chain.from_iterable(run.landings for run in runs))
    for name, some in (*by_probability(landings), ("all", landings)):
        if some:
            said = statistics.mean(landing.probability for landing in some)
            hits = sum(landing.hit for landing in some)
            _row(name, str(len(some)), _percent(said), _percent(hits / len(some)))


def show(results: Results) -> None:
    """All tables."""
    by_day: dict[str, dict[str, list[Figures]]] = {}
    for run, figures in results.items():
        day = f"{run.kind}, {run.regime}"
        by_day.setdefault(day, {}).setdefault(run.contestant, []).append(figures)
    for day, found in by_day.items():
        print(f"\n{day}: {max(map(len, found.values()))} days\n")
        _strategies(found)
    print("\ndesched on all kinds of days\n")
    _days(by_day)
    names = dict.fromkeys(run.contestant for run, found in results.items() if found.landings)
    for name in names:
        print(f"\nlandings of {name}\n")
        _landings([run for found in by_day.values() for run in found.get(name, ())])


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables")
    parser.add_argument("results", type=Path, nargs="+")
    results: Results = {}
    for path in parser.parse_args(arguments).results:
        found, versions = read_results(path)
        print(f"{path}: {versions}")
        results.update(found)
    show(results)


if __name__ == "__main__":
    main(sys.argv[1:])
