"""The load of nodes at the time of the follow-up."""

import msgspec

from desched.model.cluster import Pod
from desched.model.state import EvictionRecord
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode


class PresentLoad(msgspec.Struct, frozen=True):
    """The class of every node, and the context of the follow-up."""

    context: EligibilityContext
    pressure: Pressure

    def loaded(self, node: str) -> LoadedNode | None:
        """The node with its load, None if the load is unknown or the node is out of scope."""
        if self.context.book.snapshot.load.problems:
            return None
        return self.pressure.known.get(node)

    def bears(self, record: EvictionRecord, replacement: Pod) -> bool | None:
        """Whether the replacement's node is not overloaded with it, None if its load is unknown.

        The replacement counts with the usage of the evicted pod, as far as the windows do not show
        it yet. Other new pods count only as measured.
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
