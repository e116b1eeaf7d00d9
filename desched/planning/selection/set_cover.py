"""The cheapest set of pods that covers the excess of a node, in numbers only.

A need is the usage of one resource above its stop line in one window. A pod covers a share of each
need; 1.0 is all of it. A resource is covered as soon as one of its windows is: a source is judged
by its lowest window. A set of pods is a cover if it covers every resource.

The search is a branch and bound. It extends all sets of one size to sets of the next size, and
drops every set that cannot become cheaper than the best known cover. For the dozens of pods of one
node the sets stay few enough to reach the optimum. Where they do not, the search gives up at a
limit, and improves the greedy cover pair by pair.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from desched.planning.arrays import Floats, Ints, Mask, Positions
from desched.planning.selection.limits import Cap

MOST_BRANCHES = 30_000
"""The search for the optimum gives up if more sets of one size remain; 16 pods never have more."""

MOST_BRANCHES_OF_A_PAIR = 6_000
IMPROVEMENT_ROUNDS = 3

LOAD_WEIGHT = 1e-4
"""Among sets of equal cost the one that moves less load wins: it needs less room elsewhere."""

_EPSILON = 1e-9
_OUT_OF_REACH = 1e12  # above every price; infinity would give NaN when multiplied by 0


class Covering(msgspec.Struct, frozen=True, dict=True, eq=False):
    """The choice of one node: which pods cover its needs at the lowest cost.

    `shares`, shape (pods, needs), has the share of each need that a pod covers; `costs`, shape
    (pods,), has the cost of each eviction. `choices` has the columns of each resource, which are
    adjacent. `caps` limit how many of some pods may go.
    """

    shares: Floats
    costs: Floats
    choices: tuple[tuple[int, ...], ...]
    caps: tuple[Cap, ...] = ()

    def cheapest(self) -> tuple[int, ...] | None:
        """Return the pods of the cheapest cover, ascending; None if no cover was found.

        Among covers of equal cost, the one that moves least wins, then the one whose pods come
        first.
        """
        if not self.covers(self.shares.sum(axis=0, keepdims=True))[0]:
            return None
        search = _Search(self)
        known = search.greedy()
        if known is not None and len(known) == 0:
            return ()
        best, proven = search.below(known, (), MOST_BRANCHES)
        if best is not None and not proven:
            best = search.improved(best)
        return None if best is None else tuple(sorted(best))

    def good(self, most_exact: int = 16) -> tuple[int, ...] | None:
        """Return the cheapest cover of few pods, and of many one that is found fast.

        Most nodes have fewer pods with what is needed than `most_exact`.
        """
        if len(self.costs) <= most_exact:
            return self.cheapest()
        if not self.covers(self.shares.sum(axis=0, keepdims=True))[0]:
            return None
        found = _Search(self).greedy()
        return None if found is None else tuple(sorted(found))

    # The arrays below have a row for each set of pods and a column for each need.

    def left(self, covered: Floats) -> Floats:
        """Return what is left of each resource in its best window, shape (sets, resources)."""
        return self.least(np.maximum(0.0, 1.0 - covered))

    def least(self, values: Floats) -> Floats:
        """Return the lowest value among each resource's needs, shape (sets, resources)."""
        found: Floats = np.minimum.reduceat(values, self._starts, axis=1)
        return found

    def covers(self, covered: Floats) -> Mask:
        """Whether each set covers every resource, shape (sets,)."""
        most: Floats = np.maximum.reduceat(covered, self._starts, axis=1)
        done: Mask = np.logical_and.reduce(most >= 1.0 - _EPSILON, axis=1)
        return done

    @cached_property
    def _starts(self) -> Positions:
        """The first column of each resource."""
        return np.array([columns[0] for columns in self.choices], dtype=np.intp)


class _Pods(NamedTuple):
    """Pods in the order of relief for their cost; each array has a row for each pod.

    `shares` has shape (pods, needs) and `costs` shape (pods,). `capped`, shape (pods, caps), is 1
    where a cap counts the pod, else 0.
    """

    shares: Floats
    costs: Floats
    capped: Ints

    def at(self, positions: Positions) -> "_Pods":
        return _Pods(self.shares[positions], self.costs[positions], self.capped[positions])


class _Frontier(NamedTuple):
    """All sets of one size that may become the cheapest cover; each array has a row for each set.

    `members`, shape (sets, size), has the positions of the pods in ascending order, so that the
    search builds each set only once; `last`, shape (sets,), is the highest of them. `covered`
    (sets, needs), `cost` (sets,) and `capped` (sets, caps) are sums over the pods of the set and
    the pods that every set keeps.
    """

    members: Positions
    last: Positions
    covered: Floats
    cost: Floats
    capped: Ints

    @classmethod
    def of(cls, kept: _Pods) -> "_Frontier":
        """One set, without any pod but those that every set keeps."""
        return cls(
            np.empty((1, 0), dtype=np.intp),
            np.array([-1]),
            kept.shares.sum(axis=0, keepdims=True),
            np.array([float(kept.costs.sum())]),
            kept.capped.sum(axis=0, keepdims=True),
        )

    def branches(self, pods: _Pods) -> int:
        """How many sets there are with one more pod, whatever they cost."""
        return len(pods.costs) * len(self.last) - int((self.last + 1).sum())

    def extended(self, pods: _Pods, bound: float, caps: Sequence[int]) -> "_Frontier | None":
        """Every set with one more pod after its last that costs less than the bound, if any."""
        positions = np.arange(len(pods.costs))
        allowed = (positions > self.last[:, None]) & (
            self.cost[:, None] + pods.costs < bound - _EPSILON
        )
        for column, most in enumerate(caps):
            allowed &= self.capped[:, column, None] + pods.capped[:, column] <= most
        parents, added = allowed.nonzero()
        if not len(added):
            return None
        return _Frontier(
            np.concatenate([self.members[parents], added[:, None]], axis=1),
            added,
            self.covered[parents] + pods.shares[added],
            self.cost[parents] + pods.costs[added],
            self.capped[parents] + pods.capped[added],
        )

    def pruned(self, kept: Mask) -> "_Frontier":
        """Only the sets of the mask."""
        rows = kept.nonzero()[0]
        members, last, covered, cost, capped = self
        return _Frontier(members[rows], last[rows], covered[rows], cost[rows], capped[rows])


class _Search:
    """The search, over pods in the order of relief for their cost.

    Callers pass and get pods by their position in the problem.
    """

    def __init__(self, problem: Covering) -> None:
        self._problem = problem
        # The cost includes the tie-breaker: a little for the load that a pod moves.
        costs = problem.costs + LOAD_WEIGHT * problem.shares.mean(axis=1)
        useful = np.minimum(problem.shares, 1.0).mean(axis=1) / costs
        self._order = np.argsort(-useful, kind="stable")
        self._position = np.empty(len(costs), dtype=np.intp)  # the inverse of the order
        self._position[self._order] = np.arange(len(costs))
        capped = np.zeros((len(costs), len(problem.caps)), dtype=np.int64)
        for column, cap in enumerate(problem.caps):
            capped[list(cap.members), column] = 1
        self._pods = _Pods(problem.shares, costs, capped).at(self._order)
        self._caps = np.array([cap.most for cap in problem.caps], dtype=np.int64)

    def greedy(self) -> list[int] | None:
        """Return the cover by the best relief for its cost, without pods that it does not need."""
        shares, costs, capped = self._pods
        chosen: list[int] = []
        free = self._caps
        open_ = (capped <= free).all(axis=1)
        covered = np.zeros(shares.shape[1])
        left = self._problem.left(covered[None])[0]
        while left.max(initial=0.0) > _EPSILON:
            left_after = self._problem.left(covered + shares)
            gain = left.sum() - left_after.sum(axis=1)
            worth = np.where(open_, gain / costs, 0.0)
            best = int(np.argmax(worth))
            if worth[best] <= _EPSILON:
                return None
            chosen.append(best)
            free = free - capped[best]
            open_ &= (capped <= free).all(axis=1)
            open_[best] = False
            covered = covered + shares[best]
            left = left_after[best]
        return self._outside(self._without_spare(chosen))

    def _without_spare(self, chosen: list[int]) -> list[int]:
        """Drop each pod, most expensive first, if the others are a cover without it."""
        for one in sorted(chosen, key=lambda i: (-self._pods.costs[i], i)):
            others = [i for i in chosen if i != one]
            if self._problem.covers(self._pods.shares[others].sum(axis=0, keepdims=True))[0]:
                chosen = others
        return chosen

    def improved(self, best: Sequence[int]) -> list[int]:
        """Replace each pair of the cover by something cheaper, if there is any."""
        for _ in range(IMPROVEMENT_ROUNDS):
            before = list(best)
            for i, first in enumerate(before):
                for second in before[i + 1 :]:
                    if first in best and second in best:
                        kept = [p for p in best if p not in {first, second}]
                        best = self.below(best, kept, MOST_BRANCHES_OF_A_PAIR)[0] or best
            if list(best) == before:
                break
        return list(best)

    def below(
        self, known: Sequence[int] | None, kept: Sequence[int], most_branches: int
    ) -> tuple[list[int] | None, bool]:
        """Return the cheapest cover with these pods, and whether it is proven to be the cheapest.

        Args:
            known: a cover to beat, if there is one.
            kept: pods that every cover contains.
            most_branches: the search gives up if more sets of one size remain.
        """
        base = self._position[list(kept)] if kept else np.empty(0, dtype=np.intp)
        others = np.delete(np.arange(len(self._order)), base)
        pods = self._pods.at(others)
        best = None if known is None else list(known)
        bound = np.inf
        if known is not None:
            bound = float(self._pods.costs[self._position[list(known)]].sum())
        cheapest = _cheapest_per_share(pods)
        caps = self._caps.tolist()
        frontier = _Frontier.of(self._pods.at(base))
        while len(frontier.last):
            if frontier.branches(pods) > most_branches:
                return best, False
            longer = frontier.extended(pods, bound, caps)
            if longer is None:
                break
            covers = self._problem.covers(longer.covered)
            if covers.any():
                first = int(np.argmin(np.where(covers, longer.cost, np.inf)))
                bound = float(longer.cost[first])
                best = self._outside([*base.tolist(), *others[longer.members[first]].tolist()])
            # Later pods have to cover what is missing; they cannot do it for less than this.
            missing = 1.0 - longer.covered
            price = np.where(missing > _EPSILON, missing, 0.0) * cheapest[longer.last + 1]
            least = self._problem.least(price).max(axis=1)
            frontier = longer.pruned(~covers & (longer.cost + least < bound - _EPSILON))
        return best, True

    def _outside(self, chosen: Sequence[int]) -> list[int]:
        """Return the positions of these pods in the problem."""
        return self._order[list(chosen)].tolist() if len(chosen) else []


def _cheapest_per_share(pods: _Pods) -> Floats:
    """Return the lowest price of a share of each need among a pod and all later ones.

    Shape (pods + 1, needs); the last row stands for no pod, which covers nothing at any price.
    """
    needs = pods.shares.shape[1]
    price = pods.costs[:, None] / np.maximum(pods.shares, 1.0 / _OUT_OF_REACH)
    price = np.minimum(price, _OUT_OF_REACH)
    best = np.minimum.accumulate(price[::-1], axis=0)[::-1]
    return np.concatenate([best, np.full((1, needs), _OUT_OF_REACH)])
