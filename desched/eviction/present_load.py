"""The load of the nodes at the time of the follow-up."""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property

import msgspec

from desched.model.cluster import Pod
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.planning.overload.classification import classify
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import Policy


class PresentLoad(msgspec.Struct, frozen=True, dict=True):
    """The class of every node, worked out once something asks for it, for it is not cheap."""

    snapshot: Snapshot
    policy: Policy
    state: State
    now: datetime

    def loaded(self, node: str) -> LoadedNode | None:
        """A node and its load, None if that is not known or the node is out of scope."""
        return self._known.get(node)

    def bears(self, record: EvictionRecord, replacement: Pod) -> bool | None:
        """Whether the replacement's node is not overloaded with it, None if its load is not known.

        What the windows have not seen of the replacement is added, as much as the evicted pod used;
        other pods that have come meanwhile count as far as they were measured.
        """
        loaded = self.loaded(replacement.node)
        if loaded is None:
            return None
        for source in loaded.sources:
            unseen = [
                record.usage(source.resource) * (1.0 - self._book.seen_share(replacement, window))
                for window in self._book.windows[source.resource]
            ]
            if source.lowest_without([-usage for usage in unseen]) > source.thresholds.target_ratio:
                return False
        return True

    @cached_property
    def _book(self) -> UsageBook:
        return UsageBook(self.snapshot, self.policy, self.now)

    @cached_property
    def _known(self) -> Mapping[str, LoadedNode]:
        if self.snapshot.load.problems:
            return {}
        return classify(self.snapshot, self.policy, self.state, self._book).known
