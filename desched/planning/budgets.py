"""How many evictions are left to this plan: the policy's limits and PodDisruptionBudgets."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from desched.model.cluster import ClusterState, Pod
from desched.model.plan import RefusalReason
from desched.policy.policy import EvictionLimits

OF_ALLOWANCE = frozenset(
    {
        RefusalReason.LIMIT_TOTAL,
        RefusalReason.LIMIT_NODE,
        RefusalReason.LIMIT_NAMESPACE,
        RefusalReason.LIMIT_WORKLOAD,
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


class Allowance:
    """Counts what the plan takes, so that no prefix of it can exceed a limit or a budget.

    `replicas_to_spare` says how many replicas the workload of a pod can do without, None where that
    is not counted.
    """

    def __init__(
        self,
        limits: EvictionLimits,
        node_count: int,
        cluster: ClusterState,
        replicas_to_spare: Callable[[Pod], int | None] = lambda _: None,
    ) -> None:
        self._limits = limits
        self._replicas_to_spare = replicas_to_spare
        self._total = limits.total_for(node_count)
        self._cluster = cluster
        self._taken: Counter[tuple[str, str]] = Counter()
        self._claims: dict[str, tuple[Claim, ...]] = {}

    @property
    def exhausted(self) -> bool:
        """Whether no further eviction is allowed at all."""
        return self._taken["total", ""] >= self._total

    def copy(self) -> "Allowance":
        """A trial that can be thrown away."""
        trial = object.__new__(Allowance)
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
        for reason, key, limit in (
            (RefusalReason.LIMIT_TOTAL, ("total", ""), self._total),
            (RefusalReason.LIMIT_NODE, ("node", pod.node), limits.node),
            (RefusalReason.LIMIT_NAMESPACE, ("namespace", pod.namespace), limits.namespace),
            (RefusalReason.LIMIT_WORKLOAD, ("workload", owner), limits.workload),
        ):
            if limit is not None:
                yield Claim(key, limit, reason, f"{limit} per cycle")
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
