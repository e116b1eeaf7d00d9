"""The cheapest set of pods that covers all that a node has too much of, in numbers only.

A pod covers a share of each need: 1.0 is all of it. A need is one resource in one window; a
resource is covered once any one of its windows is. The search goes through sets of one, of two, of
three, … and drops every branch that cannot be cheaper than the best known set. What it finds is
the optimum as long as the branches of a size stay few, which they do for the dozens of pods that a
node has; beyond that, what greedy choice found is improved pair by pair.
"""

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.planning.arrays import Floats, Positions
from desched.planning.selection.limits import Cap

MOST_BRANCHES = 30_000
"""Sets of one size that are looked at for the optimum: all subsets of 16 pods stay below it."""

MOST_BRANCHES_OF_A_PAIR = 6_000
IMPROVEMENT_ROUNDS = 3

LOAD_WEIGHT = 1e-4
"""Of sets that cost the same, the one that moves less load: it needs less room elsewhere."""

_EPSILON = 1e-9
_OUT_OF_REACH = 1e12  # a price that no cover can have; infinity times nothing would not be a number


class Covering(msgspec.Struct, frozen=True, dict=True, eq=False):
    """One node's choice.

    `shares` has a row for each pod and a column for each need, `costs` a value for each pod.
    `choices` has the columns of each resource, which lie side by side. `caps` bound how many of
    some pods may go.
    """

    shares: Floats
    costs: Floats
    choices: tuple[tuple[int, ...], ...]
    caps: tuple[Cap, ...] = ()

    def cheapest(self) -> tuple[int, ...] | None:
        """The pods of the cheapest cover, ascending; None if no cover was found.

        Of covers that cost the same it is the one that moves least, and then the one whose pods
        come first.
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

    def left(self, covered: Floats) -> Floats:
        """For each row of covered shares what is left of each resource, in its best window."""
        return self.least(np.maximum(0.0, 1.0 - covered))

    def least(self, values: Floats) -> Floats:
        """For each row the least value of each resource's needs."""
        found: Floats = np.minimum.reduceat(values, self._starts, axis=1)
        return found

    def covers(self, covered: Floats) -> NDArray[np.bool_]:
        """For each row of covered shares whether nothing is left of any resource."""
        most: Floats = np.maximum.reduceat(covered, self._starts, axis=1)
        done: NDArray[np.bool_] = np.logical_and.reduce(most >= 1.0 - _EPSILON, axis=1)
        return done

    @cached_property
    def _starts(self) -> Positions:
        """The first column of each resource."""
        return np.array([columns[0] for columns in self.choices], dtype=np.intp)


class _Search:
    """The search itself, over pods in the order of their usefulness for the money."""

    def __init__(self, problem: Covering) -> None:
        self._problem = problem
        moved = problem.shares.mean(axis=1)
        costs = problem.costs + LOAD_WEIGHT * moved
        useful = np.minimum(problem.shares, 1.0).mean(axis=1) / costs
        self._order = np.argsort(-useful, kind="stable")
        self._shares = problem.shares[self._order]
        self._costs = costs[self._order]
        self._member = np.zeros((len(costs), len(problem.caps)), dtype=np.int64)
        position_of = np.empty(len(costs), dtype=np.intp)
        position_of[self._order] = np.arange(len(costs))
        for column, cap in enumerate(problem.caps):
            self._member[position_of[list(cap.members)], column] = 1
        self._most = np.array([cap.most for cap in problem.caps], dtype=np.int64)
        self._position = position_of

    def greedy(self) -> list[int] | None:
        """A cover by the best relief for its cost, without what turned out not to be needed."""
        chosen: list[int] = []
        free = self._most
        open_ = (self._member <= free).all(axis=1)
        covered = np.zeros(self._shares.shape[1])
        left = self._problem.left(covered[None])[0]
        while left.max(initial=0.0) > _EPSILON:
            left_after = self._problem.left(covered + self._shares)
            gain = left.sum() - left_after.sum(axis=1)
            worth = np.where(open_, gain / self._costs, 0.0)
            best = int(np.argmax(worth))
            if worth[best] <= _EPSILON:
                return None
            chosen.append(best)
            free = free - self._member[best]
            open_ &= (self._member <= free).all(axis=1)
            open_[best] = False
            covered = covered + self._shares[best]
            left = left_after[best]
        return self._outside(self._spared(chosen))

    def _spared(self, chosen: list[int]) -> list[int]:
        """Without every pod, dearest first, that the rest covers for."""
        for one in sorted(chosen, key=lambda i: (-self._costs[i], i)):
            rest = [i for i in chosen if i != one]
            if self._problem.covers(self._shares[rest].sum(axis=0, keepdims=True))[0]:
                chosen = rest
        return chosen

    def improved(self, best: Sequence[int]) -> list[int]:
        """The cover once each pair of it has had the chance to be replaced by something cheaper."""
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
        """The cheapest cover that keeps these pods, and whether all others were ruled out.

        Args:
            known: a cover to beat, if there is one.
            kept: pods that are in every cover looked at.
            most_branches: where to give up.
        """
        base = self._position[list(kept)] if kept else np.empty(0, dtype=np.intp)
        free = np.delete(np.arange(len(self._costs)), base)
        shares, costs, member = self._shares[free], self._costs[free], self._member[free]
        best = None if known is None else list(known)
        bound = np.inf if known is None else float(self._costs[self._position[list(known)]].sum())
        cheapest = _cheapest_per_share(shares, costs)

        sets, last = np.empty((1, 0), dtype=np.intp), np.array([-1])
        covered = self._shares[base].sum(axis=0, keepdims=True)
        spent = np.array([float(self._costs[base].sum())])
        taken = self._member[base].sum(axis=0, keepdims=True)
        positions = np.arange(len(costs))
        while len(sets):
            if len(costs) * len(sets) - (last + 1).sum() > most_branches:
                return best, False
            # Every set with one more pod that comes after its last.
            longer = (positions > last[:, None]) & (spent[:, None] + costs < bound - _EPSILON)
            for column, most in enumerate(self._most.tolist()):
                longer &= taken[:, column, None] + member[:, column] <= most
            parent, new = longer.nonzero()
            if not len(new):
                break
            sets = np.concatenate([sets[parent], new[:, None]], axis=1)
            covered = covered[parent] + shares[new]
            spent = spent[parent] + costs[new]
            taken = taken[parent] + member[new]
            done = self._problem.covers(covered)
            if done.any():
                first = int(np.argmin(np.where(done, spent, np.inf)))
                bound = float(spent[first])
                best = self._outside([*base.tolist(), *free[sets[first]].tolist()])
            # A branch has to pay at least this for what it does not cover yet.
            missing = 1.0 - covered
            price = np.where(missing > _EPSILON, missing, 0.0) * cheapest[new + 1]
            least = self._problem.least(price).max(axis=1)
            open_ = (~done & (spent + least < bound - _EPSILON)).nonzero()[0]
            sets, last, covered = sets[open_], new[open_], covered[open_]
            spent, taken = spent[open_], taken[open_]
        return best, True

    def _outside(self, chosen: Sequence[int]) -> list[int]:
        return self._order[list(chosen)].tolist() if len(chosen) else []


def _cheapest_per_share(shares: Floats, costs: Floats) -> Floats:
    """For each position the lowest price of a share of each need, from this pod on."""
    price = np.minimum(costs[:, None] / np.maximum(shares, 1.0 / _OUT_OF_REACH), _OUT_OF_REACH)
    best = np.minimum.accumulate(price[::-1], axis=0)[::-1]
    return np.concatenate([best, np.full((1, shares.shape[1]), _OUT_OF_REACH)])
