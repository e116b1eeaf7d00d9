"""Hours of the trace on a real control plane: `python -m benchmarks.real_day`.

desched runs as a process against the real API server, kube-scheduler, controller manager and
Prometheus, with KWOK in the place of the kubelets. The world and all of desched's times are
`--speed` times as fast as the clock. The same hours in the simulation stand beside it, and those
without a descheduler, for which nothing has to run: no pod moves. It ends all that it started, also
on Ctrl-C. `--json` appends a line for each run, which `benchmarks.compare` reads.
"""

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.aims import DESCHED, NOBODY
from benchmarks.closed_loop import POLICY, SIGS_DEFAULTS, default_policy, run_day
from benchmarks.day import MEAN_CPU, Kind, Regime, Size, a_day, pace_of, size_of
from benchmarks.faster_service import LONGEST_SPEED
from benchmarks.measures import (
    LEGEND,
    Figures,
    Line,
    Run,
    figures_of,
    landings_of,
    measured_by,
    show_calibration,
    show_shares,
    show_table,
    version,
)
from benchmarks.real_hours import Lag, Service, Times, desched, run_for_real
from benchmarks.rival_services import kubernetes_sigs
from benchmarks.trace import DEFAULT, Jobs, read_jobs
from desched.lab.closed_loop import INTERVAL_SECONDS, Day, targets_of
from tests.controlplane.binaries import BinariesUnavailableError, find_or_build
from tests.controlplane.cluster import BINARIES

REAL, REAL_SIGS = "desched, for real", "kubernetes-sigs, for real"
SHORT = Size(nodes=20, pods=320, hours=1)
MOST_HOURS = 20
INTERRUPTED = 130


class RealLine(Line, frozen=True):
    """A line of a file of results: how the run kept up, and in how many cycles desched held."""

    hours: int
    speed: int
    lag: Lag
    holds: Mapping[str, int]


def real(
    day: Day, times: Times, binaries: Mapping[str, Path], run: Run, service: Service
) -> RealLine:
    """The figures of a descheduler on a control plane of its own."""
    outcome = run_for_real(day, times, targets_of(default_policy()), binaries, service)
    figures = figures_of(
        outcome.result,
        outcome.cpu_seconds,
        taints=outcome.taints,
        most_tainted=outcome.most_tainted,
        landings=landings_of(outcome.result, outcome.named),
        results=dict(outcome.results),
    )
    return RealLine(run, figures, times.hours, times.speed, outcome.lag, outcome.holds)


class Contestants(NamedTuple):
    """Those of a simulation by name, and those that run for real."""

    simulated: Sequence[str]
    real: Mapping[str, Service]
    binaries: Mapping[str, Path]


def lines_of(
    jobs: Jobs, kind: Kind, seed: int, size: Size, speed: int, contestants: Contestants
) -> Iterator[Line]:
    """All contestants on the hours of a seed."""
    day, pace = a_day(jobs, seed, Regime.FAIR, kind, size=size), pace_of(kind)
    policy, times = default_policy(), Times(pace, size.hours, speed)

    def run(contestant: str) -> Run:
        return Run(contestant, kind, Regime.FAIR, seed, size.nodes, version())

    for name in contestants.simulated:
        yield Line(run(name), run_day(day, name, policy, size.hours, pace)[1])
    for name, service in contestants.real.items():
        yield real(day, times, contestants.binaries, run(name), service)


def show(kind: Kind, lines: Sequence[Line]) -> None:
    """The table of one kind of hours, and how far the forecasts were right."""
    found: dict[str, list[Figures]] = {}
    for line in lines:
        found.setdefault(line.run.contestant, []).append(line.figures)
    print(f"\n{kind}, seeds {sorted({line.run.seed for line in lines})}")
    show_table(found, found[NOBODY])
    for name in (DESCHED, REAL):
        if name not in found:
            continue
        print(f"  {name}:")
        show_calibration(found[name])
        results = [figures.results for figures in found[name]]
        show_shares("Results of the evictions, as desched reports them:", results)
    for line in lines:
        if isinstance(line, RealLine) and line.lag.cycles:
            holds = ", ".join(f"{count} {reason}" for reason, count in line.holds.items())
            print(f"  seed {line.run.seed}, held cycles: {holds or 'none'}; {lag_text(line.lag)}")
    sys.stdout.flush()


def lag_text(lag: Lag) -> str:
    """Whether everything kept up; seconds are those of the day."""
    return (
        f"{lag.cycles} of {lag.due_cycles} cycles, the first {lag.first_cycle:.0f} s late, the "
        f"longest {lag.longest_cycle:.0f} s long, at most {lag.longest_interval:.0f} s apart; "
        f"{lag.unknown_loads} loads unknown; {lag.scrapes_share:.1%} of the scrapes of the worst "
        f"target; pods looked at every {lag.unseen:.0f} s or more often"
    )


def _speed(text: str) -> int:
    speed = int(text)
    if not 1 <= speed <= LONGEST_SPEED or INTERVAL_SECONDS % speed:
        raise argparse.ArgumentTypeError(f"divides {INTERVAL_SECONDS:.0f}, at most {LONGEST_SPEED}")
    return speed


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_day")
    parser.add_argument("--trace", type=Path, default=DEFAULT)
    parser.add_argument(
        "--kind", type=Kind, choices=list(MEAN_CPU), action="append", help="both if not given"
    )
    parser.add_argument("--seed", type=int, action="append", help="0 if not given")
    parser.add_argument("--hours", type=int, choices=range(1, MOST_HOURS + 1), metavar="N")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--short", action="store_true", help="1 hour, 20 nodes, 320 pods")
    parser.add_argument("--speed", type=_speed, default=LONGEST_SPEED)
    parser.add_argument("--simulated", action="store_true", help="only the simulation")
    parser.add_argument("--kubernetes-sigs", type=Path, metavar="BINARY", help="a rival, too")
    parser.add_argument("--without-desched", action="store_true", help="only nobody and rivals")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append a line for each run")
    return parser.parse_args(arguments)


def _size(kind: Kind, options: argparse.Namespace) -> Size:
    usual = SHORT if options.short else size_of(kind)
    asked = {name: getattr(options, name) for name in Size._fields}
    return usual._replace(**{name: number for name, number in asked.items() if number})


def _contestants(options: argparse.Namespace) -> Contestants:
    names, services = [NOBODY], {}
    if not options.without_desched:
        names.append(DESCHED)
        services[REAL] = desched(POLICY)
    if options.kubernetes_sigs:
        names.append(SIGS_DEFAULTS)
        services[REAL_SIGS] = kubernetes_sigs(options.kubernetes_sigs.resolve(), default_policy())
    if options.simulated:
        return Contestants(names, {}, {})
    return Contestants(names, services, find_or_build(BINARIES, print))


def main(arguments: Sequence[str]) -> int:
    """Run all contestants on all hours that are asked for."""
    options = _options(arguments)
    try:
        contestants = _contestants(options)
    except BinariesUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return 1
    print(measured_by(), LEGEND, sep="\n", flush=True)
    jobs = read_jobs(options.trace)
    for kind in options.kind or MEAN_CPU:
        lines: list[Line] = []
        for seed in options.seed or [0]:
            for line in lines_of(
                jobs, kind, seed, _size(kind, options), options.speed, contestants
            ):
                lines.append(line)
                if options.json:
                    with options.json.open("ab") as file:
                        file.write(msgspec.json.encode(line) + b"\n")
        show(kind, lines)
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may let its jobs ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
