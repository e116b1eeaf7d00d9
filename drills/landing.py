"""Compares the landing forecast with kube-scheduler: `python -m drills.landing`.

Takes about an hour on 2 cores; `--share 0.1` is a tenth of it. Every cluster has a control plane
of its own. Rows (i) to (iv) are kinds of clusters, (v) is calibration over (i) to (iii): how often
nodes of a forecast probability really were the landing. Mismatches are printed. With `--taints`
nodes have soft taints of desched, which change before evictions, and of others, and some pods
tolerate them.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.controlplane.binaries import find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.landing_trials import Trial, Trials
from tests.controlplane.random_clusters import build, random_cluster
from tests.controlplane.scheduler_log import EVENTS_FLAGS, SCORES_FLAGS
from tests.controlplane.soft_taints import SoftTaints, with_soft_taints

FEWEST_IN_BUCKET = 50
BUCKETS = 10


@dataclass(frozen=True)
class Case:
    """A row of the table, and what it should reach."""

    label: str
    nodes: int
    homogeneous: bool
    clusters: int
    evictions: int
    covered: float
    size: int
    top: float = 0.0
    at_once: int = 1


CASES = (
    Case("i", 20, homogeneous=False, clusters=8, evictions=40, covered=0.97, size=3, top=0.95),
    Case("ii", 20, homogeneous=True, clusters=8, evictions=40, covered=0.97, size=5, top=0.8),
    Case("iii", 200, homogeneous=False, clusters=6, evictions=50, covered=0.94, size=8),
    Case("iv", 20, homogeneous=False, clusters=5, evictions=40, covered=0.95, size=5, at_once=5),
)


def trials_of(case: Case, share: float, *, tainted: bool) -> list[Trial]:
    """All evictions of a row; scores are logged only where all nodes are scored."""
    binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr))
    found: list[Trial] = []
    for seed in range(max(1, math.ceil(case.clusters * share))):
        cluster = random_cluster(seed, case.nodes, homogeneous=case.homogeneous)
        if tainted:
            cluster = with_soft_taints(cluster, seed)
        flags = SCORES_FLAGS if case.nodes < 100 else EVENTS_FLAGS
        with ControlPlane(binaries, flags) as control_plane:
            build(control_plane, cluster)
            taints = SoftTaints(control_plane, seed) if tainted else None
            trials = Trials(control_plane, cluster, seed, taints)
            for trial in trials.run(case.evictions, case.at_once):
                found.append(trial)
                if not trial.is_covered or (case.at_once == 1 and trial.differences()):
                    print(f"  ({case.label}) seed {seed}: {trial}")
    return found


def report(case: Case, trials: Sequence[Trial]) -> bool:
    """Prints the row; whether it reaches what it should."""
    covered = float(np.mean([trial.is_covered for trial in trials]))
    top = float(np.mean([trial.tops for trial in trials]))
    size = float(np.percentile([len(trial.likely) for trial in trials], 90))
    back = float(np.mean([trial.landed == trial.pod.node for trial in trials]))
    scored = [trial for trial in trials if trial.scored]
    equal = "-"
    if case.at_once == 1 and scored:
        equal = f"{sum(not t.differences() for t in scored)}/{len(scored)}"
    reached = covered >= case.covered and size <= case.size and top >= case.top
    print(
        f"({case.label:>3}) {case.nodes:4} nodes {len(trials):4} evictions: covered {covered:6.1%} "
        f"(>= {case.covered:.0%}), p90 size {size:.0f} (<= {case.size}), top right {top:6.1%} "
        f"(>= {case.top:.0%}), back on the source {back:5.1%}, equal scores {equal}: "
        f"{'reached' if reached else 'MISSED'}",
        flush=True,
    )
    return reached


def calibration(trials: Iterable[Trial]) -> bool:
    """Prints each bucket of probability; whether all with enough cases are right within 0.10."""
    pairs = [
        (float(probability), name == trial.landed)
        for trial in trials
        for name, probability in zip(trial.landing.names, trial.landing.probabilities, strict=True)
        if probability > 0.001
    ]
    reached = True
    for bucket in range(BUCKETS):
        low, high = bucket / BUCKETS, (bucket + 1) / BUCKETS
        here = [p for p in pairs if low < p[0] <= high + 1e-9 and (p[0] > low + 1e-9 or not bucket)]
        if len(here) < FEWEST_IN_BUCKET:
            continue
        forecast, real = (float(np.mean(column)) for column in zip(*here, strict=True))
        right = abs(forecast - real) <= 0.10
        reached &= right
        numbers = f"{len(here):5} forecasts of {forecast:.2f}, came true {real:.2f}"
        print(f"(  v) {low:.1f} to {high:.1f}: {numbers}")
    print(f"(  v) calibration within 0.10: {'reached' if reached else 'MISSED'}")
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the clusters of each row")
    parser.add_argument("--taints", action="store_true", help="clusters with soft taints")
    parser.add_argument("--rows", nargs="*", default=[case.label for case in CASES])
    arguments = parser.parse_args()
    reached, all_single = [], []
    for case in CASES:
        if case.label in arguments.rows:
            trials = trials_of(case, arguments.share, tainted=arguments.taints)
            reached.append(report(case, trials))
            all_single += trials if case.at_once == 1 else []
    reached.append(calibration(all_single))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
