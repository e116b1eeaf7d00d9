"""What hot nodes compete for: evictions of a workload or under a budget, and places.

Each node is asked what it would take if it were alone. What is asked for more often than there is
of it gets a price, so that nodes with another choice take that one and leave it to nodes without:
the prices are Lagrange multipliers, found by a subgradient method with falling steps.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from desched.model.plan import RefusalReason
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.one_node import NodeSelection, OverloadedNode, cheapest_pods

PRICE_STEP = 0.25
"""A quarter of an eviction: less than what tells one priority from the next."""

LOAD_PRICE_STEP = 1.0
"""For moving a whole node's load, whose places are short; a pod is a few hundredths of it."""

COST_TOLERANCE = 1e-6

_NO_PLACE = {
    RefusalReason.NO_NODE_FITS,
    RefusalReason.NO_NODE_UNDER_CEILING,
    RefusalReason.LANDING_RISK,
}
_ITS_OWN = {RefusalReason.NO_RELIEF, RefusalReason.NOT_NEEDED, RefusalReason.LIMIT_NODE}


class Market:
    """Learns from one choice to the next which nodes fell short, and what is short."""

    def __init__(self, nodes: Sequence[OverloadedNode], quota: EvictionQuota) -> None:
        self._nodes = nodes
        self._quota = quota
        self._setbacks: Counter[str] = Counter()
        self._prices: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._load_price = 0.0
        self._alone: dict[str, float | None] = {}
        self._rounds = 0

    def next_order(self, covers: Mapping[str, NodeSelection]) -> list[OverloadedNode]:
        """The nodes with prices, those first that fell short most often; none if none did.

        Args:
            covers: what each node got in the choice before, by name.
        """
        short = [node for node in self._nodes if self.fell_short(node, covers[node.name])]
        if not short:
            return []
        self._rounds += 1
        self._setbacks.update(node.name for node in short)
        if any(r in _NO_PLACE for node in short for r, _ in covers[node.name].stay.values()):
            self._load_price += LOAD_PRICE_STEP
        self._adapt_prices()
        return sorted(map(self._priced, self._nodes), key=lambda n: -self._setbacks[n.name])

    def fell_short(self, node: OverloadedNode, cover: NodeSelection) -> bool:
        """Whether an earlier turn might have given the node more, or the same for less."""
        if cover.exhausted and not cover.relieved:
            return False  # hottest first: a cooler node does not take the cycle's last evictions
        if not node.prices and all(reason in _ITS_OWN for reason, _ in cover.stay.values()):
            return False
        best = self.alone(node)
        return best is not None and (not cover.relieved or cover.cost > best + COST_TOLERANCE)

    def alone(self, node: OverloadedNode) -> float | None:
        """What relieving the node would cost if it were alone; None if nothing relieves it."""
        if node.name not in self._alone:
            pods = cheapest_pods(msgspec.structs.replace(node, prices={}), self._quota)
            self._alone[node.name] = None if pods is None else sum(c.cost for c in pods)
        return self._alone[node.name]

    def _adapt_prices(self) -> None:
        asked: Counter[tuple[str, str]] = Counter()
        left: dict[tuple[str, str], int] = {}
        for node in map(self._priced, self._nodes):
            for candidate in cheapest_pods(node, self._quota) or ():
                counts = self._quota.left(candidate.pod)
                asked.update(counts.keys())
                left |= counts
        step = PRICE_STEP / math.sqrt(self._rounds)
        for count in asked.keys() | self._prices.keys():
            missing = asked[count] - left.get(count, 1)
            self._prices[count] = max(0.0, self._prices[count] + step * missing)

    def _priced(self, node: OverloadedNode) -> OverloadedNode:
        prices = {}
        for candidate in node.candidates:
            counts = self._quota.left(candidate.pod)
            load_ratio = sum(
                candidate.charge[s.resource] / s.bases[0].denominator for s in node.loaded.sources
            )
            prices[candidate.pod.uid] = (
                sum(self._prices[count] for count in counts) + self._load_price * load_ratio
            )
        return msgspec.structs.replace(node, prices=prices)
