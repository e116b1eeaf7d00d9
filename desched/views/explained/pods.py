"""What a decision makes of each pod, in one line."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from desched.decision import Decision
from desched.model.cluster import Pod, PodRef
from desched.model.load import Measured
from desched.model.plan import Finding, PlannedEviction, Refusal, RefusalReason
from desched.model.resources import Resource
from desched.planning.eligibility.rules import refuse
from desched.planning.overload.huge_pages import ordinary_bytes
from desched.views.explained.values import PodOutcome, PodSummary


class PodOutcomes:
    """The outcomes of pods by a decision."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    @cached_property
    def evictions(self) -> Mapping[PodRef, PlannedEviction]:
        """The planned evictions by pod."""
        return {eviction.pod: eviction for eviction in self._decision.plan.evictions}

    @cached_property
    def _refusals(self) -> Mapping[PodRef, Refusal]:
        return {refusal.pod: refusal for refusal in self._decision.plan.refusals}

    def summary(self, pod: Pod) -> PodSummary:
        """The pod in one line."""
        context = self._decision.context
        used = {
            resource: max(context.book.measured(pod, resource), default=None)
            for resource in (Resource.CPU, Resource.MEMORY)
        }
        node = context.cluster.node_by_name.get(pod.node)
        cpu = node.capacity.cpu_millicores if node else 0
        memory = ordinary_bytes(node) if node else 0
        outcome, finding = self.outcome(pod)
        eviction = self.evictions.get(pod.ref)
        workload = context.cluster.workload_of(pod)
        return PodSummary(
            pod.ref,
            pod.node,
            str(workload) if workload else "",
            used[Resource.CPU],
            used[Resource.MEMORY],
            _share(used[Resource.CPU], cpu),
            _share(used[Resource.MEMORY], memory),
            outcome,
            finding.reason if finding else None,
            finding.detail if finding else "",
            eviction.expected_on if eviction else "",
            context.book.has_read_of(pod),
            *self._gpus(pod),
        )

    def _gpus(self, pod: Pod) -> tuple[float | None, float | None]:
        """Its highest usage of GPUs, and that as a share of its node's GPUs."""
        gpus = self._decision.context.book.device_loads.get(Resource.GPU)
        usage = gpus and gpus.of_pod(pod)
        node = gpus and gpus.nodes.get(pod.node)
        if not usage or not isinstance(node, Measured):
            return None, None
        used = max(usage.total)
        return used, _share(used, node.devices)

    def outcome(self, pod: Pod) -> tuple[PodOutcome, Finding[RefusalReason] | None]:
        """What becomes of the pod, and why it stays if something refuses it."""
        if pod.ref in self.evictions:
            return PodOutcome.EVICTED, None
        refusal = self._refusals.get(pod.ref)
        if refusal is not None:
            return PodOutcome.STAYS, Finding(refusal.reason, refusal.detail)
        refused = refuse(pod, self._decision.context)
        if refused is not None and not self._decision.context.is_unread(refused.reason, pod):
            return PodOutcome.STAYS, refused
        return PodOutcome.NOT_NEEDED, None


def largest_first(pods: Iterable[PodSummary]) -> tuple[PodSummary, ...]:
    """The pods by the larger of their shares of the node, ties by name."""
    return tuple(sorted(pods, key=lambda summary: (-_size(summary), summary.pod)))


def _size(pod: PodSummary) -> float:
    return max(pod.cpu_ratio or 0.0, pod.memory_ratio or 0.0, pod.gpu_ratio or 0.0)


def _share(used: float | None, size: int) -> float | None:
    return used / size if used is not None and size else None
