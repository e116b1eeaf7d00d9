"""Compares the filters with kube-scheduler: `python -m drills.feasibility`.

In each of several random clusters pods with constraints of every kind are taken away, and copies
pinned to one node each show whether the scheduler would have put them there. Ten clusters take
about six minutes on 2 cores. Each mismatch is printed with its pod and the scheduler's words.
"""

import argparse
import sys

from tests.controlplane.binaries import find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.feasibility_trials import Trial

VICTIMS = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=10)
    binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr))
    agreed = bound = mismatches = 0
    for seed in range(parser.parse_args().clusters):
        with ControlPlane(binaries) as control_plane:
            trial = Trial(control_plane, seed)
            for number in range(VICTIMS):
                trial.probe(number)
        for mismatch in trial.mismatches:
            print(f"seed {seed}: {mismatch}")
        agreed, bound = agreed + trial.agreed, bound + trial.bound
        mismatches += len(trial.mismatches)
        print(f"seed {seed}: {trial.agreed} nodes agree, {trial.bound} of them take the pod")
    print(f"{agreed} nodes agree, {bound} of them take the pod; {mismatches} mismatches")
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
