"""What a decision starts from: the context of its rules, and the class of every node."""

from datetime import timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.model.load import ClusterLoad
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, SeenMoves, State
from desched.planning.clocks import clocks_differ
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import Policy


class Situation(NamedTuple):
    """The context of a decision, and the class of every node by its load.

    `stayed` are the evictions that the state does not have any more because their pods stayed.
    `differing_clocks` is empty if times of the snapshot can be compared.
    """

    context: EligibilityContext
    pressure: Pressure
    stayed: tuple[EvictionRecord, ...] = ()
    differing_clocks: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot, policy: Policy, state: State) -> "Situation":
        """Update the state with the pods of the snapshot if its times can be trusted, classify.

        Raises:
            ConfigurationError: the policy names a PriorityClass that does not exist.
        """
        differing, observed = clocks_differ(snapshot), SeenMoves(state)
        if not differing:
            horizon = timedelta(seconds=policy.longest_window_seconds)
            observed = state.observed(snapshot.cluster.pods, snapshot.taken_at, horizon)
        book = UsageBook(snapshot, policy, snapshot.taken_at)
        context = EligibilityContext.of(book, observed.state)
        return cls(context, classify(book, observed.state), observed.stayed, differing)

    def with_load(self, load: ClusterLoad) -> "Situation":
        """Return a copy with a load that leads to the same classes."""
        book = self.context.book
        snapshot = replace(book.snapshot, load=load)
        context = replace(self.context, book=replace(book, snapshot=snapshot))
        return self._replace(context=context)
