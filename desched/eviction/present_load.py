"""The load of the nodes at the time of the follow-up."""

import msgspec

from desched.model.cluster import Pod
from desched.model.state import EvictionRecord
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode


class PresentLoad(msgspec.Struct, frozen=True):
    """The class of every node beside what it was worked out from."""

    context: EligibilityContext
    pressure: Pressure

    def loaded(self, node: str) -> LoadedNode | None:
        """A node and its load; None if that is not known or the node is out of scope."""
        if self.context.book.snapshot.load.problems:
            return None
        return self.pressure.known.get(node)

    def bears(self, record: EvictionRecord, replacement: Pod) -> bool | None:
        """Whether the replacement's node is not overloaded with it, None if its load is not known.

        What the windows have not seen of the replacement is added, as much as the evicted pod used;
        other pods that have come meanwhile count as far as they were measured.
        """
        loaded = self.loaded(replacement.node)
        if loaded is None:
            return None
        book = self.context.book
        for source in loaded.sources:
            unseen = [
                record.usage(source.resource) * (1.0 - book.seen_share(replacement, window))
                for window in book.windows[source.resource]
            ]
            if source.lowest_without([-usage for usage in unseen]) > source.thresholds.target_ratio:
                return False
        return True
