"""The context in which eligibility rules judge a pod."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from desched.model.cluster import (
    ClusterState,
    ControllerKey,
    Pod,
    PodVolume,
    Workload,
)
from desched.model.plan import RefusalReason
from desched.model.snapshot import FreshPod
from desched.model.state import State
from desched.planning.deadline import OutOfTime, PlanningTime
from desched.planning.eligibility.annotations import EvictionAnnotations, eviction_annotations
from desched.planning.eligibility.controllers import declared_uid, with_declared_workloads
from desched.planning.eligibility.local_storage import kept_by_local_storage
from desched.planning.eligibility.priority_threshold import resolve_threshold
from desched.planning.eligibility.terms import Terms
from desched.planning.kube_scheduler.default_spread import with_default_spread
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.plugins import scores_of_others
from desched.policy.policy import Policy, Protections

T = TypeVar("T")


class EligibilityContext(msgspec.Struct, frozen=True, dict=True):
    """The cluster in which pods are judged, with the usage of its pods, and the terms.

    `planned_in` is the context of the plan if pods were read again since, else None.
    """

    cluster: ClusterState
    book: UsageBook
    terms: Terms
    deadline: PlanningTime = PlanningTime()
    planned_in: "EligibilityContext | None" = None

    @classmethod
    def of(cls, book: UsageBook, state: State) -> "EligibilityContext":
        """The context of one cycle.

        Raises:
            ConfigurationError: the policy names a PriorityClass that the cluster does not have.
        """
        policy, cluster = book.policy, book.snapshot.cluster
        threshold = resolve_threshold(policy, cluster.priority_classes)
        cluster = with_declared_workloads(cluster, policy.protections.understood_owner_kinds)
        rules = policy.scheduler.by(cluster.volcano_configurations)
        rules = rules.knowing(scores_of_others(policy.plugins))
        policy = msgspec.structs.replace(policy, scheduler=rules)
        cluster = with_default_spread(cluster, rules)
        terms = Terms(policy, state, book.now, threshold)
        return cls(cluster, book, terms)

    def for_planning(self, state: State, out_of_time: OutOfTime) -> "EligibilityContext":
        """The same context after the follow-up, with a deadline for planning."""
        terms = msgspec.structs.replace(self.terms, state=state)
        return msgspec.structs.replace(self, terms=terms, deadline=PlanningTime(out_of_time))

    def without_rules(self, reasons: frozenset[RefusalReason]) -> "EligibilityContext":
        """The same context, in which the rules of these reasons keep no pod."""
        if not reasons:
            return self
        terms = msgspec.structs.replace(self.terms, waived=reasons)
        return msgspec.structs.replace(self, terms=terms)

    @property
    def as_planned(self) -> "EligibilityContext":
        """The context of the plan, with all of the cluster, if pods were read again since."""
        return self if self.planned_in is None else self.planned_in

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.terms.policy

    @property
    def state(self) -> State:
        """The state of earlier cycles."""
        return self.terms.state

    @property
    def now(self) -> datetime:
        """The time at which pods are judged."""
        return self.terms.now

    @property
    def protections(self) -> Protections:
        """The policy's protections."""
        return self.terms.protections

    def eviction_annotations(self, pod: Pod) -> EvictionAnnotations:
        """The eviction annotations of the pod and its workload."""
        return eviction_annotations(pod, self.cluster.workload_of(pod), self.now)

    def with_fresh(self, looks: Sequence[FreshPod], now: datetime) -> "EligibilityContext":
        """The same context for pods that leave together, with what was read just now.

        Of the other pods only the siblings in the looks and desched's own remain; the number of
        Ready replicas comes from the workload's status. Fresh budgets include earlier evictions of
        the plan.
        """
        seen, last = self.cluster, looks[-1]
        workloads, owners = dict(seen.workloads), dict(seen.controller_owners)
        for look in looks:
            controller = look.pod.controller
            if controller is not None:
                _put(workloads, controller, look.workload or self._declared(look))
                _put(owners, controller, look.controller_owner)
        nodes = {look.node.name: look.node for look in looks if look.node}
        siblings = (sibling for look in looks for sibling in look.siblings)
        extras = dict(seen.extras)
        for plugin in self.policy.plugins:
            extras |= plugin.read_again(seen, looks)
        cluster = msgspec.structs.replace(
            seen,
            nodes=tuple(nodes.get(node.name, node) for node in seen.nodes),
            pods=_distinct(*(look.pod for look in looks), *siblings, *seen.own_pods),
            workloads=workloads,
            controller_owners=owners,
            budgets=last.budgets,
            extras=extras,
        )
        terms = msgspec.structs.replace(self.terms, now=now)
        return msgspec.structs.replace(
            self, cluster=cluster, terms=terms, planned_in=self.as_planned
        )

    def _declared(self, look: FreshPod) -> Workload | None:
        """The declared workload of the pod, if its controller is still the same.

        The API has no status of it that desched understands, so its size is that of the plan; its
        annotations are those of the look.
        """
        owner = look.controller_owner or look.pod.owner
        declared = self.cluster.workload_of(look.pod)
        if declared is None or owner is None or declared.sized:
            return None
        if declared.uid != declared_uid(look.pod, owner):
            return None
        unknown = "" if look.owner_annotations is not None else "it cannot be read any more"
        return msgspec.structs.replace(
            declared, annotations=look.owner_annotations or {}, annotations_unknown=unknown
        )

    @cached_property
    def ready_pods(self) -> Mapping[str, int]:
        """The number of Ready pods by the workload's uid, if its controller does not report it."""
        return Counter(
            workload.uid
            for pod in self.cluster.pods
            if pod.ready and not pod.deleting and not pod.finished
            if (workload := self.cluster.workload_of(pod)) is not None
        )

    def is_unread(self, reason: RefusalReason, pod: Pod) -> bool:
        """Whether a rule finds only that the usage of the pod was not read: nothing needed it."""
        return reason is RefusalReason.USAGE_UNKNOWN and not self.book.has_read_of(pod)

    def derived(self, derive: Callable[["EligibilityContext"], T]) -> T:
        """What a function derives from the context, computed once; for plugins."""
        computed: dict[Callable[[EligibilityContext], Any], Any] = self._derived
        if derive not in computed:
            computed[derive] = derive(self)
        result: T = computed[derive]
        return result

    @cached_property
    def _derived(self) -> dict[Callable[["EligibilityContext"], Any], Any]:
        return {}

    def extra_cost(self, pod: Pod) -> float:
        """What plugins add to the cost of an eviction of the pod."""
        return sum(plugin.extra_cost(pod, self) for plugin in self.policy.plugins)

    def after_eviction(self, pod: Pod) -> str:
        """What plugins know of the replacement of the pod; empty if nothing."""
        notes = (plugin.after_eviction(pod, self) for plugin in self.policy.plugins)
        return "; ".join(filter(None, notes))

    def has_copies(self, pod: Pod, volume: PodVolume) -> bool:
        """Whether a plugin knows nodes with copies of this volume, and keeps the pod on them."""
        return any(plugin.has_copies(pod, volume, self) for plugin in self.policy.plugins)

    def is_taken_over(self, pod: Pod) -> bool:
        """Whether another controller answers the eviction of the pod, and moves it itself."""
        return any(plugin.takes_over(pod) for plugin in self.policy.plugins)

    def is_placed_together(self, pod: Pod) -> bool:
        """Whether the scheduler of the pod places it with others or not at all."""
        return any(plugin.is_placed_together(pod, self) for plugin in self.policy.plugins)

    @cached_property
    def claim_users(self) -> Mapping[tuple[str, str, str], tuple[Pod, ...]]:
        """The pods with each claim on each node, by the node, the namespace and the claim."""
        users: dict[tuple[str, str, str], list[Pod]] = {}
        for pod in self.cluster.pods:
            if pod.volumes and pod.node and not pod.finished:
                for claim in {volume.claim for volume in pod.volumes if volume.claim}:
                    users.setdefault((pod.node, pod.namespace, claim), []).append(pod)
        return {key: tuple(sorted(pods, key=lambda p: p.ref)) for key, pods in users.items()}

    @cached_property
    def kept_by_local_storage(self) -> int:
        """How many pods emptyDirs on disk keep in place."""
        return len(kept_by_local_storage(self.cluster, self.now, self.policy.plugins))

    @cached_property
    def nodes_by_label(self) -> Mapping[tuple[str, str], int]:
        """The number of nodes with each label and value."""
        return Counter(label for node in self.cluster.nodes for label in node.labels.items())


def _distinct(*pods: Pod) -> tuple[Pod, ...]:
    """The pods, of each the first that has its uid."""
    return tuple({pod.uid: pod for pod in reversed(pods)}.values())[::-1]


def _put(values: dict[ControllerKey, T], key: ControllerKey, value: T | None) -> None:
    """Set the value, or remove it if there is none."""
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
