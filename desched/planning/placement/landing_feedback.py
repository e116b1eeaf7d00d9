"""What earlier moves teach about further ones."""

from collections.abc import Mapping

import msgspec

from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.node_arrays import NodeArrays


class LandingFeedback(msgspec.Struct, frozen=True):
    """What came of earlier moves: how much worse than forecast, and what is still on its way.

    `surcharges` are added to the risk of pods on these nodes. `awaited` counts the replacements
    that are expected on a node, of which there may be `most_awaited` at a time, None for any.
    """

    surcharges: Mapping[str, float] = {}
    awaited: Mapping[str, int] = {}
    most_awaited: int | None = None

    def crowded(self, node: str) -> str:
        """Why no further replacement may be on its way to the node, empty if one may."""
        count = self.awaited.get(node, 0)
        if self.most_awaited is None or count < self.most_awaited:
            return ""
        return f"node {node} already awaits {count}, at most {self.most_awaited} at a time"

    def crowded_nodes(self, arrays: NodeArrays) -> Mask:
        """All those nodes."""
        crowded = arrays.none()
        for node in self.awaited:
            if node in arrays.index and self.crowded(node):
                crowded[arrays.index[node]] = True
        return crowded

    def awaiting(self, node: str) -> "LandingFeedback":
        """This with one more on its way to the node."""
        if self.most_awaited is None:
            return self
        awaited = {**self.awaited, node: self.awaited.get(node, 0) + 1}
        return msgspec.structs.replace(self, awaited=awaited)
