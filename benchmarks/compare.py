"""Compares two files of results on the same days: `python -m benchmarks.compare BEFORE AFTER`.

`python -m benchmarks.closed_loop --json FILE` writes such a file.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks.aims import NOBODY
from benchmarks.measures import LEGEND, Figures, Line, Run, show_calibration, show_table

COMPARED: dict[str, Callable[[Figures], float]] = {
    "overload": lambda run: run.overload_node_minutes,
    ">90 %": lambda run: run.above_90_node_minutes,
    "points x min": lambda run: run.excess_point_minutes,
    "CPU not given": lambda run: run.unmet_cpu_node_minutes,
    "evictions": lambda run: run.evictions,
}

Results = dict[Run, Figures]


def read_results(path: Path) -> tuple[Results, str]:
    """The runs of a file without their version, and the versions."""
    lines = [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()]
    versions = sorted({line.run.version for line in lines})
    return {replace(each.run, version=""): each.figures for each in lines}, ", ".join(versions)


def _show(before: Results, after: Results) -> None:
    both = [run for run in before if run in after]
    for kind, regime in dict.fromkeys((run.kind, run.regime) for run in both):
        days = [run for run in both if (run.kind, run.regime) == (kind, regime)]
        print(f"\n{regime}, {kind}")
        for name in dict.fromkeys(run.contestant for run in days):
            runs = [run for run in days if run.contestant == name]
            found = {"before": [before[r] for r in runs], "after": [after[r] for r in runs]}
            if name == NOBODY and found["before"] == found["after"]:
                continue
            nobody = [
                before[r] for r in (replace(r, contestant=NOBODY) for r in runs) if r in before
            ]
            print(f" {name}, seeds {', '.join(str(run.seed) for run in runs)}")
            show_table(found, nobody if len(nobody) == len(runs) else None)
            print("  " + "; ".join(_change(name, *found.values()) for name in COMPARED))
            if any(run.landings for run in found["after"]):
                show_calibration(found["after"])


def _change(what: str, before: Sequence[Figures], after: Sequence[Figures]) -> str:
    value = COMPARED[what]
    pairs = [(value(b), value(a)) for b, a in zip(before, after, strict=True)]
    was, now = (sum(values) for values in zip(*pairs, strict=True))
    better, worse = sum(a < b for b, a in pairs), sum(a > b for b, a in pairs)
    change = f"{now / was - 1:+.1%}" if was else f"{now:+,.0f}"
    return f"{what} {change} (less on {better}, more on {worse} of {len(pairs)} days)"


def main(arguments: Sequence[str]) -> None:
    """Compare the runs that are in both files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    (before, old), (after, new) = read_results(options.before), read_results(options.after)
    print(f"before: {old}, after: {new}\n{LEGEND}")
    _show(before, after)


if __name__ == "__main__":
    main(sys.argv[1:])
