"""Measures the quality and the time of the choice of pods: `python -m benchmarks.selection`.

It compares small clusters with the optimum of a solver, a large cluster with the bound of the
linear program, and both with three simple orders. It needs scipy (the dependency group `bench`) and
the trace (see `benchmarks.trace`).
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy

from benchmarks.measures import measured_by
from benchmarks.optimum import Optimum, may_go, optimum, replayed
from benchmarks.overloaded_clusters import SMALL, UNLIMITED, Floats, Instance, Shape, instance
from benchmarks.trace import DEFAULT, read_trace
from desched.model.plan import Finding
from desched.planning.selection.all_nodes import Selection, select_moves
from desched.planning.selection.candidates import Candidate, OverloadedNode
from desched.planning.selection.excess import Excess
from desched.planning.selection.one_node import cheapest_pods
from desched.planning.selection.trial import Trial

SEEDS = 10
RUNS = 5
COST_TOLERANCE = 1e-6
LARGE = Shape(nodes=5_000, overloaded=500, pods=30, limits=UNLIMITED, budgets=False)
WHO = ("desched", "optimum", "replayed", "first", "priority", "biggest", "random")
QOS_ORDER = ("BestEffort", "Burstable", "Guaranteed")

Order = Callable[[OverloadedNode, Candidate], tuple[float, ...]]
Outcome = tuple[int, float, int]
"""The overloaded nodes left, the cost of the pods that leave relieved nodes, and the evictions."""


def _ours(case: Instance) -> Outcome:
    return _outcome(select_moves(case.nodes, case.destinations, case.quota))


def _outcome(choice: Selection) -> Outcome:
    overloaded, cost = 0, 0.0
    for node in choice.nodes:
        gone = [move.candidate for _, move in choice.by_node[node.name].moves]
        relieved = Excess(node.loaded).clears(gone)
        overloaded += not relieved
        cost += sum(c.cost for c in gone) if relieved else 0.0
    return overloaded, cost, len(choice.moves)


def _in_order(case: Instance, order: Order) -> Outcome:
    """Node by node, pods in this order until the node is relieved, with the planner's limits."""
    destinations, quota, overloaded, cost, evictions = case.destinations, case.quota, 0, 0.0, 0
    for node in case.nodes:
        trial, excess = Trial(destinations, quota), Excess(node.loaded)
        gone: list[Candidate] = []
        for candidate in sorted(node.candidates, key=lambda c: order(node, c)):
            if excess.clears(gone):
                break
            move = trial.find(candidate)
            if not isinstance(move, Finding):
                trial.take(move)
                gone.append(candidate)
        destinations, quota = trial.destinations, trial.quota or quota
        relieved = excess.clears(gone)
        overloaded += not relieved
        cost += sum(c.cost for c in gone) if relieved else 0.0
        evictions += len(gone)
    return overloaded, cost, evictions


def _by_priority(node: OverloadedNode, candidate: Candidate) -> tuple[float, ...]:  # noqa: ARG001 (an Order)
    return candidate.pod.priority, QOS_ORDER.index(candidate.pod.qos)


def _biggest(node: OverloadedNode, candidate: Candidate) -> tuple[float, ...]:
    return (-sum(relief.ratio for relief in Excess(node.loaded).relief(candidate)),)


def _random(seed: int) -> Order:
    chance = np.random.default_rng(seed)
    return lambda node, candidate: (float(chance.random()),)  # noqa: ARG005 (an Order)


def _bound(case: Instance, ours: Outcome) -> Optimum:
    """The optimum; the much faster program without destinations is tried first."""
    simple = optimum(case, destinations=False)
    return simple if simple.gap == 0 and _on_bound(ours, simple) else optimum(case)


def _on_bound(ours: Outcome, best: Optimum) -> bool:
    return ours[0] == best.overloaded_left and ours[1] <= best.cost + COST_TOLERANCE


def small(trace: Floats, seeds: int) -> None:
    """Compare small clusters, twelve of 100 nodes overloaded, with the optimum."""
    print(
        f"\n12 of 100 nodes overloaded, 1,600 pods, {seeds} clusters of each kind. Cost: mean cost "
        "of the pods that leave relieved nodes; left: overloaded nodes left in all clusters; "
        "replayed: if desched is not on the bound, the optimum's pods moved one by one, in the "
        "best of many orders; first forecast: the optimum if pods land as forecast before the "
        "first move; surpassed: clusters in which that is better than desched; unbounded: clusters "
        "in which desched moves a pod that the solver may not move, so that there is no bound."
    )
    print(
        f"{'':<36}{'above the optimum':>18}{'desched':>14}{'optimum':>14}{'replayed':>14}"
        f"{'first forecast':>15}{'by priority':>13}{'biggest':>14}{'random':>14}{'gap':>7}"
    )
    print(
        f"{'':<36}{'mean':>9}{'worst':>9}"
        + f"{'cost':>8}{'left':>6}" * len(WHO)
        + f"{'':>7}{'ms':>8}{'surpassed':>11}{'unbounded':>11}"
    )
    for name, shape in SMALL.items():
        above, gap, took, surpassed, unbounded = [], 0.0, [], 0, 0
        totals: dict[str, list[float]] = {who: [0.0, 0.0] for who in WHO}
        for seed in range(seeds):
            case = instance(shape, trace, np.random.default_rng(seed))
            began = time.perf_counter()
            choice = select_moves(case.nodes, case.destinations, case.quota)
            took.append(time.perf_counter() - began)
            ours = _outcome(choice)
            if not all(may_go(case, node, move.candidate) for node, move in choice.moves):
                unbounded += 1
            best = _bound(case, ours)
            first = optimum(case, as_first_forecast=True)
            surpassed += (first.overloaded_left, first.cost + COST_TOLERANCE) < ours[:2]
            gap = max(gap, best.gap, first.gap)
            if ours[0] == best.overloaded_left and best.cost > 0:
                above.append(max(0.0, ours[1] / best.cost - 1))
            found = {
                "desched": ours,
                "optimum": (best.overloaded_left, best.cost, 0),
                "replayed": ours if _on_bound(ours, best) else (*replayed(case, best.goes), 0),
                "first": (first.overloaded_left, first.cost, 0),
                "priority": _in_order(case, _by_priority),
                "biggest": _in_order(case, _biggest),
                "random": _in_order(case, _random(seed)),
            }
            for who, (overloaded, cost, _) in found.items():
                totals[who][0] += cost / seeds
                totals[who][1] += overloaded
        print(
            f"{name:<36}{statistics.mean(above or [0.0]):>9.2%}{max(above, default=0.0):>9.2%}"
            + "".join(f"{totals[who][0]:>8.1f}{totals[who][1]:>6.0f}" for who in WHO)
            + f"{gap:>7.1%}{statistics.median(took) * 1000:>8.0f}{surpassed:>11}"
            f"{unbounded:>11}",
            flush=True,
        )


def large(trace: Floats) -> None:
    """Compare 5,000 nodes, a tenth overloaded, with the bound of the linear program."""
    case = instance(LARGE, trace, np.random.default_rng(1))
    took, busy, ours = [], [], []
    for _ in range(RUNS):
        gc.collect()
        gc.disable()  # as desched.cycle.decide does
        began, began_busy = time.perf_counter(), time.process_time()
        ours.append(_ours(case))
        took.append(time.perf_counter() - began)
        busy.append(time.process_time() - began_busy)
        gc.enable()
    linear = optimum(case, destinations=False, whole=False)
    alone = [c.cost for node in case.nodes for c in cheapest_pods(node) or ()]
    print(
        f"\n{LARGE.nodes:,} nodes, {LARGE.nodes * LARGE.pods:,} pods, {len(case.nodes)} "
        f"overloaded, no limit: {statistics.median(took):.2f} s, of which "
        f"{statistics.median(busy):.2f} s on the processor (medians of {RUNS})"
    )
    print(f"{'':<44}{'left':>9}{'cost':>9}{'evictions':>11}")
    rows = {
        "desched": ours[-1],
        "first fit by priority (kubernetes-sigs)": _in_order(case, _by_priority),
        "biggest first (Volcano)": _in_order(case, _biggest),
        "random": _in_order(case, _random(1)),
    }
    for name, (overloaded, cost, evictions) in rows.items():
        print(f"{name:<44}{overloaded:>9}{cost:>9.0f}{evictions:>11}")
    print(f"{'bound: each node alone, room everywhere':<44}{0:>9}{sum(alone):>9.0f}")
    name, left = "bound: linear program, divisible pods", linear.overloaded_left
    print(f"{name:<44}{left:>9}{linear.cost:>9.0f}")


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=DEFAULT, help="the trace's archive")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="clusters of each kind")
    arguments = parser.parse_args()
    trace = read_trace(arguments.trace)
    print(f"{measured_by()}, scipy {scipy.__version__}")
    small(trace, arguments.seeds)
    large(trace)


if __name__ == "__main__":
    main()
