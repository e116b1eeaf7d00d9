"""How many evictions are left to this plan: the policy's limits and PodDisruptionBudgets."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from desched.model.cluster import ClusterState, Pod
from desched.model.plan import RefusalReason
from desched.model.state import EvictionRecord
from desched.policy.policy import EvictionLimits, Share, count_of

OF_QUOTA = frozenset(
    {
        RefusalReason.LIMIT_TOTAL,
        RefusalReason.LIMIT_NODE,
        RefusalReason.LIMIT_NAMESPACE,
        RefusalReason.LIMIT_WORKLOAD,
        RefusalReason.LIMIT_IN_FLIGHT,
        RefusalReason.BUDGET_EXHAUSTED,
    }
)
"""Why an eviction is not allowed in this plan although it would be right."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One count that an eviction adds to: at most `limit` of this `key` in a plan."""

    key: tuple[str, str]
    limit: int
    reason: RefusalReason
    detail: str


class Quota(msgspec.Struct, frozen=True, gc=False):
    """At most `most` of these pods, named by their position, may go."""

    most: int
    members: tuple[int, ...]


class EvictionQuota:
    """Counts what the plan takes, so that no prefix of it can exceed a limit or a budget.

    `replicas_to_spare` says how many replicas the workload of a pod can do without, None where that
    is not counted. `in_flight` are evictions of earlier cycles that are under way.
    """

    def __init__(
        self,
        limits: EvictionLimits,
        node_count: int,
        cluster: ClusterState,
        replicas_to_spare: Callable[[Pod], int | None] = lambda _: None,
        in_flight: Sequence[EvictionRecord] = (),
    ) -> None:
        self._limits = limits
        self._replicas_to_spare = replicas_to_spare
        self._total = limits.total_for(node_count)
        self._cluster = cluster
        self._taken = Counter(
            key for r in in_flight for key in (("in flight", ""), ("in flight", r.workload_uid))
        )
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._pods_in: Mapping[str, int] = (
            Counter(pod.namespace for pod in cluster.pods if not pod.finished)
            if isinstance(limits.namespace, Share)
            else {}
        )

    @property
    def exhausted(self) -> RefusalReason | None:
        """The limit by which no further eviction is allowed at all, None if one is."""
        if self._taken["total", ""] >= self._total:
            return RefusalReason.LIMIT_TOTAL
        most = self._limits.in_flight_total
        if most is not None and self._taken["in flight", ""] >= most:
            return RefusalReason.LIMIT_IN_FLIGHT
        return None

    def copy(self) -> "EvictionQuota":
        """A trial that can be thrown away."""
        trial = object.__new__(EvictionQuota)
        trial.__dict__.update(self.__dict__)
        trial._taken = self._taken.copy()
        return trial

    def refuse(self, pod: Pod) -> tuple[RefusalReason, str] | None:
        """Why one more eviction of this pod is not allowed in this cycle, None if it is."""
        for claim in self._claims_of(pod):
            if self._taken[claim.key] >= claim.limit:
                return claim.reason, claim.detail
        return None

    def take(self, pod: Pod) -> None:
        """Count an eviction of the pod."""
        for claim in self._claims_of(pod):
            self._taken[claim.key] += 1

    def left(self, pod: Pod) -> dict[tuple[str, str], int]:
        """How many more may go of each count that an eviction of the pod adds to."""
        return {c.key: max(0, c.limit - self._taken[c.key]) for c in self._claims_of(pod)}

    def quotas(self, pods: Sequence[Pod]) -> list[Quota]:
        """What is left of each limit and budget that not all of these pods together would keep."""
        members: dict[tuple[str, str], list[int]] = {}
        left: dict[tuple[str, str], int] = {}
        for position, pod in enumerate(pods):
            for claim in self._claims_of(pod):
                members.setdefault(claim.key, []).append(position)
                left[claim.key] = max(0, claim.limit - self._taken[claim.key])
        return [
            Quota(left[key], tuple(positions))
            for key, positions in members.items()
            if len(positions) > left[key]
        ]

    def _claims_of(self, pod: Pod) -> tuple[Claim, ...]:
        found = self._claims.get(pod.uid)
        if found is None:
            found = self._claims[pod.uid] = tuple(self._claim(pod))
        return found

    def _claim(self, pod: Pod) -> Iterator[Claim]:
        limits = self._limits
        workload = self._cluster.workload_of(pod)
        owner = workload.uid if workload else pod.uid
        of_namespace = count_of(limits.namespace, self._pods_in.get(pod.namespace, 0))
        replicas = workload.desired_replicas if workload else 1
        of_workload = count_of(limits.workload, replicas)
        of_workload_in_flight = count_of(limits.in_flight_workload, replicas)
        for reason, key, limit in (
            (RefusalReason.LIMIT_TOTAL, ("total", ""), self._total),
            (RefusalReason.LIMIT_NODE, ("node", pod.node), limits.node),
            (RefusalReason.LIMIT_NAMESPACE, ("namespace", pod.namespace), of_namespace),
            (RefusalReason.LIMIT_WORKLOAD, ("workload", owner), of_workload),
        ):
            if limit is not None:
                yield Claim(key, limit, reason, f"{limit} per cycle")
        for key, limit in (
            (("in flight", ""), limits.in_flight_total),
            (("in flight", owner), of_workload_in_flight),
        ):
            if limit is not None:
                detail = f"{limit} at a time, until it is known what became of them"
                yield Claim(key, limit, RefusalReason.LIMIT_IN_FLIGHT, detail)
        spare = self._replicas_to_spare(pod)
        if spare is not None:
            detail = f"at most {spare} of its replicas may be away at a time"
            yield Claim(("replicas", owner), spare, RefusalReason.LIMIT_WORKLOAD, detail)
        for budget in self._cluster.budgets_of(pod):
            yield Claim(
                ("budget", str(budget)),
                budget.disruptions_allowed,
                RefusalReason.BUDGET_EXHAUSTED,
                f"{budget}, by this plan",
            )
