"""How many evictions this plan may make, by the policy's limits and PodDisruptionBudgets."""

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from desched.model.cache import cached
from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.selection.slow_start import most_evictions
from desched.policy.share import Share, count_of

OF_QUOTA = frozenset(
    {
        RefusalReason.LIMIT_TOTAL,
        RefusalReason.LIMIT_NODE,
        RefusalReason.LIMIT_NAMESPACE,
        RefusalReason.LIMIT_WORKLOAD,
        RefusalReason.LIMIT_IN_FLIGHT,
        RefusalReason.LIMIT_MIGRATIONS,
        RefusalReason.LIMIT_HOURLY,
        RefusalReason.BUDGET_EXHAUSTED,
        RefusalReason.POD_GROUP,
    }
)
"""Reasons that refuse an eviction for this plan only."""

_DETAILS = {
    RefusalReason.LIMIT_IN_FLIGHT: "{limit} at a time, until their results are known",
    RefusalReason.LIMIT_HOURLY: "{limit} of {replicas} replicas within an hour",
}


class LimitUse(msgspec.Struct, frozen=True, gc=False):
    """One count that an eviction adds to: at most `limit` evictions with this `key` in a plan."""

    key: tuple[str, str]
    limit: int
    reason: RefusalReason
    detail: str

    @property
    def is_of_workload(self) -> bool:
        """Whether it limits how many pods of one workload or group may be away at a time."""
        of_one = {RefusalReason.LIMIT_WORKLOAD, RefusalReason.POD_GROUP}
        return self.reason in of_one or (self.key[0] == "in flight" and self.key[1] != "")


class EvictionQuota:
    """Counts the evictions of a plan, so that no prefix of it exceeds a limit or a budget."""

    def __init__(self, eligibility: Eligibility) -> None:
        context = eligibility.context
        limits, cluster, state = context.policy.limits, context.cluster, context.state
        self._eligibility = eligibility
        self._limits = limits
        nodes = len(cluster.nodes)
        self._total = most_evictions(limits, state, nodes)
        most = count_of(limits.planned_total, nodes) or 0
        slow = f", slow start; up to {most}" if self._total < most else ""
        self._details = {**_DETAILS, RefusalReason.LIMIT_TOTAL: f"{{limit}} per cycle{slow}"}
        self._in_flight_total = count_of(limits.in_flight_total, nodes)
        self._cluster = cluster
        self._taken = Counter(
            key
            for r in state.in_flight
            for key in (("in flight", ""), ("in flight", r.workload_uid))
        )
        moved = eligibility.moved_within_hour
        self._taken.update({("hour", uid): count for uid, count in moved.items()})
        for plugin in context.policy.plugins:
            self._taken.update(plugin.under_way(context, state))
        self._uses: dict[str, tuple[LimitUse, ...]] = {}
        self._over_next_cycles = False
        self._pods_in: Mapping[str, int] = (
            Counter(pod.namespace for pod in cluster.pods if not pod.finished)
            if isinstance(limits.namespace, Share)
            else {}
        )

    @property
    def exhausted(self) -> Finding[RefusalReason] | None:
        """Return the limit that forbids every further eviction, or None without one."""
        for reason, key, limit in (
            (RefusalReason.LIMIT_TOTAL, ("total", ""), self._total),
            (RefusalReason.LIMIT_IN_FLIGHT, ("in flight", ""), self._in_flight_total),
        ):
            if limit is not None and self._taken[key] >= limit:
                return Finding(reason, self._details[reason].format(limit=limit))
        return None

    def copy(self) -> "EvictionQuota":
        """An independent copy."""
        copied: EvictionQuota = copy.copy(self)
        copied._taken = self._taken.copy()
        return copied

    def over_next_cycles(self) -> "EvictionQuota":
        """Return the quota of the next cycles together: only limits by the hour remain."""
        copied: EvictionQuota = copy.copy(self)
        copied._taken = self._taken.copy()
        copied._over_next_cycles = True
        return copied

    def why_refused(self, pod: Pod) -> Finding[RefusalReason] | None:
        """Return why this cycle may not evict the pod as well, or None if it may."""
        for use in self._uses_of(pod):
            if self._taken[use.key] >= use.limit:
                return Finding(use.reason, use.detail)
        return None

    def refuse_all(self, pods: Sequence[Pod]) -> Finding[RefusalReason] | None:
        """Return why these pods may not all be evicted together, or None if they may.

        The limits of a workload at a time do not count, which would split most groups; those by the
        hour do.
        """
        uses = (use for pod in pods for use in self._uses_of(pod) if not use.is_of_workload)
        for use, count in Counter(uses).items():
            if self._taken[use.key] + count > use.limit:
                return Finding(use.reason, f"{count} of its pods count; {use.detail}")
        return None

    def take(self, pod: Pod) -> None:
        """Count an eviction of the pod."""
        for use in self._uses_of(pod):
            self._taken[use.key] += 1

    def _uses_of(self, pod: Pod) -> tuple[LimitUse, ...]:
        uses = self._uses.get(pod.uid)
        if uses is None:
            uses = self._uses[pod.uid] = tuple(self._use(pod))
        if self._over_next_cycles:
            return tuple(use for use in uses if use.reason is RefusalReason.LIMIT_HOURLY)
        return uses

    def _use(self, pod: Pod) -> Iterator[LimitUse]:
        workload = self._cluster.workload_of(pod)
        owner = workload.uid if workload else pod.uid
        yield from self._of_limits(pod.node, pod.namespace)
        yield from self._of_limits_of_workload(owner, workload.desired_replicas if workload else 1)
        spare = self._eligibility.replicas_to_spare(pod)
        if spare is not None:
            detail = f"at most {spare} of its replicas may be away at a time"
            yield LimitUse(("replicas", owner), spare, RefusalReason.LIMIT_WORKLOAD, detail)
        context = self._eligibility.context
        for plugin in context.policy.plugins:
            yield from plugin.quota_uses(pod, context)
        budgets = () if context.is_taken_over(pod) else self._cluster.budgets_of(pod)
        for budget in budgets:
            yield LimitUse(
                ("budget", str(budget)),
                budget.disruptions_allowed,
                RefusalReason.BUDGET_EXHAUSTED,
                f"{budget}, by this plan",
            )

    @cached
    def _of_limits(self, node: str, namespace: str) -> tuple[LimitUse, ...]:
        limits = self._limits
        of_namespace = count_of(limits.namespace, self._pods_in.get(namespace, 0))
        return self._limited(
            (RefusalReason.LIMIT_TOTAL, ("total", ""), self._total),
            (RefusalReason.LIMIT_NODE, ("node", node), limits.node),
            (RefusalReason.LIMIT_NAMESPACE, ("namespace", namespace), of_namespace),
        )

    @cached
    def _of_limits_of_workload(self, owner: str, replicas: int) -> tuple[LimitUse, ...]:
        limits, in_flight = self._limits, RefusalReason.LIMIT_IN_FLIGHT
        of_workload = count_of(limits.workload, replicas)
        of_workload_in_flight = count_of(limits.in_flight_workload, replicas)
        hourly = count_of(limits.workload_hourly, replicas)
        return self._limited(
            (RefusalReason.LIMIT_WORKLOAD, ("workload", owner), of_workload),
            (in_flight, ("in flight", ""), self._in_flight_total),
            (in_flight, ("in flight", owner), of_workload_in_flight),
            (RefusalReason.LIMIT_HOURLY, ("hour", owner), hourly),
            replicas=replicas,
        )

    def _limited(
        self, *uses: tuple[RefusalReason, tuple[str, str], int | None], replicas: int = 0
    ) -> tuple[LimitUse, ...]:
        """Return the uses that have a limit."""
        return tuple(
            LimitUse(
                key,
                limit,
                reason,
                self._details.get(reason, "{limit} per cycle").format(
                    limit=limit, replicas=replicas
                ),
            )
            for reason, key, limit in uses
            if limit is not None
        )
