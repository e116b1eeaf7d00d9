"""What eligibility rules hold a pod against, and what such a rule is."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property

import msgspec

from desched.model.cluster import ClusterState, Pod
from desched.model.memory import Memory
from desched.model.plan import RefusalReason
from desched.planning.consent import Consent, consent_of
from desched.planning.usage import UsageBook
from desched.policy.policy import Policy, Protections


class Surroundings(msgspec.Struct, frozen=True, dict=True):
    """What the rules hold a pod against.

    `priority_threshold` is the policy's, resolved against the cluster's PriorityClasses.
    """

    cluster: ClusterState
    policy: Policy
    memory: Memory
    book: UsageBook
    priority_threshold: int | None
    now: datetime

    @property
    def protections(self) -> Protections:
        """What the policy protects."""
        return self.policy.protections

    def consent_of(self, pod: Pod) -> Consent:
        """What the annotations of the pod and its workload say."""
        return consent_of(pod, self.cluster.workload_of(pod))

    @cached_property
    def recently_evicted(self) -> Mapping[str, datetime]:
        """Workloads with an eviction that the windows have not fully seen, and when it was."""
        return {r.workload_uid: r.evicted_at for r in self.memory.evictions}

    @cached_property
    def ready_pods(self) -> Mapping[str, int]:
        """How many Ready pods each workload has, for those whose controller does not tell."""
        return Counter(
            workload.uid
            for pod in self.cluster.pods
            if pod.ready and not pod.deleting and not pod.finished
            if (workload := self.cluster.workload_of(pod)) is not None
        )

    @cached_property
    def nodes_by_label(self) -> Mapping[tuple[str, str], int]:
        """How many nodes carry each label with each value."""
        return Counter(label for node in self.cluster.nodes for label in node.labels.items())


Finding = tuple[RefusalReason, str] | None
"""Why a pod must stay, with what was found; None if the rule has nothing against a move."""

Rule = Callable[[Pod, Surroundings], Finding]
