"""The same choice as a mixed-integer program, solved by HiGHS through scipy.

Binary variables: a pod goes, a node is relieved, and in which window. Candidates, costs, the
relief by each pod, limits and budgets are exact. A pod may go only if the forecast at the start of
the plan allows its landing. The landing is relaxed: the probability of each node of the landing set
is a variable, and the node is charged usage and requests times this probability. In reality the
scheduler decides, each move changes its decision, and the planner reserves the likeliest
destination in full. The optimum is therefore a bound for every plan whose pods may all land at the
start.

By default, the landing set of a pod is every node with room. With `as_first_forecast` it is every
node with a probability at the start of the plan, so that no move changes the landing of another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from benchmarks.overloaded_clusters import CAPACITY, RESOURCES, Instance
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destination import Destination
from desched.planning.selection.candidates import Candidate, OverloadedNode
from desched.planning.selection.excess import Excess
from desched.planning.selection.one_node import LEAST_RELIEF_SHARE
from desched.planning.selection.trial import Move, Trial

OVERLOADED_NODE_PRICE = 1_000.0
"""Higher than the cost of any cover: the number of relieved nodes comes first, then the cost."""

HALF = 0.5

Row = tuple[list[int], list[float], float, float]


@dataclass(frozen=True)
class Optimum:
    """The solver's result; `gap` is the relative gap to its bound.

    `goes` has the uids of the pods that leave relieved nodes, only whole pods.
    """

    overloaded_left: int
    cost: float
    gap: float
    goes: frozenset[str] = frozenset()


class _Program:
    """The variables and rows of the program."""

    def __init__(self) -> None:
        self.prices: list[float] = []
        self.is_whole: list[bool] = []
        self.rows: list[Row] = []

    def variable(self, price: float, *, whole: bool = True) -> int:
        self.prices.append(price)
        self.is_whole.append(whole)
        return len(self.prices) - 1

    def row(self, terms: dict[int, float], least: float, most: float) -> None:
        self.rows.append((list(terms), list(terms.values()), least, most))

    def solve(self, *, whole: bool, seconds: float) -> tuple[NDArray[np.float64], float]:
        count = [len(variables) for variables, _, _, _ in self.rows]
        matrix = csr_array(
            (
                np.concatenate([values for _, values, _, _ in self.rows]),
                (
                    np.repeat(np.arange(len(self.rows)), count),
                    np.concatenate([variables for variables, _, _, _ in self.rows]),
                ),
            ),
            shape=(len(self.rows), len(self.prices)),
        )
        result = milp(
            np.array(self.prices),
            integrality=np.array(self.is_whole, dtype=int) * whole,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(
                matrix, [low for _, _, low, _ in self.rows], [high for *_, high in self.rows]
            ),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        if result.x is None:
            raise SystemExit(f"HiGHS found nothing in {seconds:.0f} s: {result.message}")
        gap = result.mip_gap if whole and result.mip_gap is not None else 0.0
        return result.x, float(gap)


def optimum(
    instance: Instance,
    *,
    destinations: bool = True,
    as_first_forecast: bool = False,
    whole: bool = True,
    seconds: float = 60.0,
) -> Optimum:
    """The best choice for an instance.

    Args:
        instance: the choice to make.
        destinations: whether every pod needs a destination; if not, the result is a lower bound.
        as_first_forecast: whether landing sets are those at the start of the plan.
        whole: whether pods are indivisible; if not, it is the bound of the linear program.
        seconds: the time after which the solver stops and reports the gap.
    """
    program = _Program()
    goes: list[list[int]] = []
    relieved: list[int] = []
    for node in instance.nodes:
        goes.append([program.variable(candidate.cost) for candidate in node.candidates])
        relieved.append(program.variable(-OVERLOADED_NODE_PRICE))
        _add_node(program, instance, node, goes[-1], relieved[-1])
    everyone = [pod for pods in goes for pod in pods]
    candidates = [candidate for node in instance.nodes for candidate in node.candidates]
    for quota in instance.quota.caps([candidate.pod for candidate in candidates]):
        terms = dict.fromkeys((everyone[i] for i in quota.members), 1.0)
        program.row(terms, -np.inf, quota.most)
    if destinations:
        _add_destinations(program, instance, goes, as_first_forecast=as_first_forecast)
    found, gap = program.solve(whole=whole, seconds=seconds)
    return Optimum(
        round(sum(1.0 - found[done] for done in relieved)),
        float(sum(found[pod] * program.prices[pod] for pod in everyone)),
        gap,
        frozenset(
            c.pod.uid for pod, c in zip(everyone, candidates, strict=True) if found[pod] > HALF
        ),
    )


def _add_node(
    program: _Program, instance: Instance, node: OverloadedNode, pods: list[int], done: int
) -> None:
    """The node is done if, for each resource, the pods that go cover its excess in a window."""
    shares, choices = Excess(node.loaded).shares(node.candidates)
    for pod, candidate in zip(pods, node.candidates, strict=True):
        if not may_go(instance, node.loaded, candidate):
            program.row({pod: 1.0}, 0.0, 0.0)
    for columns in choices:
        in_window = [program.variable(0.0) for _ in columns]
        program.row({**dict.fromkeys(in_window, 1.0), done: -1.0}, 0.0, np.inf)
        # In any window: implied for whole pods, a much better bound for divisible ones.
        most = np.minimum(shares[:, list(columns)].max(axis=1), 1.0)
        at_best = {pod: float(share) for pod, share in zip(pods, most, strict=True)}
        program.row({**at_best, done: -1.0}, 0.0, np.inf)
        for column, chosen in zip(columns, in_window, strict=True):
            covered = {
                # Capped: whole pods cover no more than all, and divisible ones must not.
                pod: min(1.0, float(share))
                for pod, share in zip(pods, shares[:, column], strict=True)
            }
            program.row({**covered, chosen: -1.0}, 0.0, np.inf)


def replayed(instance: Instance, goes: frozenset[str], orders: int = 100) -> tuple[int, float]:
    """The overloaded nodes left and the cost of the moves if these pods really move one by one.

    Each move is forecast and counted as by the planner. A pod that may not move is tried again
    after the others; the best of several orders of the pods counts.
    """
    chance = np.random.default_rng(0)
    wanted = [c for node in instance.nodes for c in node.candidates if c.pod.uid in goes]
    found = []
    for _ in range(orders):
        found.append(_moved(instance, wanted))
        if found[-1][0] == 0:
            break
        wanted = [wanted[i] for i in chance.permutation(len(wanted))]
    return min(found)


def _moved(instance: Instance, wanted: Sequence[Candidate]) -> tuple[int, float]:
    trial = Trial(instance.destinations, instance.quota)
    open_, gone = list(wanted), set[str]()
    while open_:
        denied = []
        for candidate in open_:
            move = trial.find(candidate)
            if isinstance(move, Move):
                trial.take(move)
                gone.add(candidate.pod.uid)
            else:
                denied.append(candidate)
        if len(denied) == len(open_):
            break
        open_ = denied
    overloaded, cost = 0, 0.0
    for node in instance.nodes:
        moved = [c for c in node.candidates if c.pod.uid in gone]
        relieved = Excess(node.loaded).clears(moved)
        overloaded += not relieved
        cost += sum(c.cost for c in moved) if relieved else 0.0
    return overloaded, cost


def may_go(instance: Instance, loaded: LoadedNode, candidate: Candidate) -> bool:
    """Whether the pod's move would help and its landing would be allowed as the first move."""
    shares, choices = Excess(loaded).shares((candidate,))
    helps = not choices or float(shares.max()) >= LEAST_RELIEF_SHARE
    return helps and isinstance(
        instance.destinations.find(candidate.pod, candidate.charge), Destination
    )


def _add_destinations(
    program: _Program, instance: Instance, goes: list[list[int]], *, as_first_forecast: bool
) -> None:
    """Each pod that goes lands on nodes of its landing set, and no node gets too much."""
    filled: list[dict[int, tuple[float, ...]]] = [{} for _ in instance.free]
    for node, pods in zip(instance.nodes, goes, strict=True):
        for candidate, pod in zip(node.candidates, pods, strict=True):
            fit = instance.destinations.free.fit(candidate.pod, node.name, candidate.charge)
            requests = candidate.pod.scheduling.requests
            charge = [
                candidate.charge[resource] / CAPACITY[r] for r, resource in enumerate(RESOURCES)
            ]
            landing_set = fit.under_ceiling
            if as_first_forecast:
                found = instance.destinations.find(candidate.pod, candidate.charge)
                probable = isinstance(found, Destination) and found.landing.probabilities > 0
                landing_set = landing_set & probable
            nodes = np.flatnonzero(landing_set)
            at = {program.variable(0.0, whole=False): int(d) for d in nodes}
            for probability, destination in at.items():
                filled[destination][probability] = (
                    requests.cpu_millicores / CAPACITY[0],
                    requests.memory_bytes / CAPACITY[1],
                    *charge,
                )
            program.row({**dict.fromkeys(at, 1.0), pod: -1.0}, 0.0, 0.0)
    for destination, amounts_by_variable in enumerate(filled):
        if not amounts_by_variable:
            continue
        left = [
            *(instance.free[destination] / CAPACITY),
            *(instance.ceilings - instance.load[destination]),
        ]
        for column, most in enumerate(left):
            terms = {p: amounts[column] for p, amounts in amounts_by_variable.items()}
            program.row(terms, -np.inf, most)
