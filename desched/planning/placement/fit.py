"""Where a pod fits, and the words for a pod that fits nowhere."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import msgspec
import numpy as np

from desched.model.resources import Resource
from desched.model.text import count_of_nodes
from desched.planning.arrays import Floats, Mask
from desched.planning.plugins import PlacementLimit

IS_SOURCE = "node(s) is the one to be relieved"
NO_DESTINATION = "node(s) are no destination"
ABOVE_CEILING = "node(s) would rise above their ceiling"


class Fit(msgspec.Struct, frozen=True):
    """The nodes where a pod fits, each mask a part of the one before.

    Nodes in `requests` pass the filters, nodes in `limited` each limit and the limits before it,
    nodes in `destinations` may get pods, and nodes in `under_ceiling` stay under their ceiling. The
    node that the pod leaves is among them only if the pod leaves with others.

    `explanation` counts the reasons, as `kubectl describe` does, if no node is under its ceiling;
    else it is empty. `loads` is the load of each node with the pod.
    """

    requests: Mask
    limited: tuple[tuple[PlacementLimit, Mask], ...]
    destinations: Mask
    under_ceiling: Mask
    loads: Mapping[Resource, Floats]
    explanation: str = ""

    @property
    def inside(self) -> Mask:
        """The nodes that all limits leave."""
        return self.limited[-1][1] if self.limited else self.requests

    @property
    def exclusions(self) -> Counter[str]:
        """Return why nodes pass the filters and are not under their ceiling, with counts."""
        limits = [limit.words for limit, _ in self.limited]
        masks = [mask for _, mask in self.limited]
        able = self.requests, *masks, self.destinations, self.under_ceiling
        counts = [int(np.count_nonzero(mask)) for mask in able]
        reasons = *limits, NO_DESTINATION, ABOVE_CEILING
        lost = Counter[str]()
        for reason, (before, after) in zip(reasons, pairwise(counts), strict=True):
            lost[reason] += before - after  # several limits may have the same words
        return lost

    def explained(self, excluded: Counter[str]) -> "Fit":
        """Return a copy with the reasons that exclude nodes; filters excluded `excluded`."""
        reasons = excluded + self.exclusions
        counts = sorted(((-count, reason) for reason, count in reasons.items() if count))
        listed = ", ".join(count_of_nodes(-count, reason) for count, reason in counts)
        summary = f"0/{len(self.requests)} nodes are available: {listed}"
        return msgspec.structs.replace(self, explanation=summary)
