"""The hard constraints (DoNotSchedule) of topology spread."""

from desched.model.cluster import Pod
from desched.model.selectors import LabelSelector
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.node_arrays import Domains, NodeArrays
from desched.planning.kube_scheduler.pod_index import PodChanges, PodMatch


class SpreadFilter:
    """Plugin PodTopologySpread; pods that are being deleted do not count."""

    def __init__(self, arrays: NodeArrays, nodes: NodeFilter) -> None:
        self._arrays = arrays
        self._nodes = nodes

    def even(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes where the pod keeps the skew of all its constraints within their maximum."""
        hard = [constraint for constraint in pod.scheduling.spread if constraint.hard]
        mask = self._arrays.all()
        for constraint in hard:
            mask &= self._arrays.domains(constraint.topology_key).labelled
        labelled = mask.copy()
        for constraint in hard:
            selector = constraint.selector_of(pod.labels)
            eligible = self._nodes.eligible(pod.scheduling, constraint, labelled)
            domains = self._arrays.domains(constraint.topology_key)
            counts = _count(pod, selector, pod_changes, domains, eligible)
            own = int(selector is not None and selector.matches(pod.labels))
            least = _least(counts, domains, eligible, constraint.min_domains)
            mask &= counts[domains.of] + own - least <= constraint.max_skew
        return mask


def _count(
    pod: Pod,
    selector: LabelSelector | None,
    pod_changes: PodChanges,
    domains: Domains,
    eligible: Mask,
) -> Ints:
    """Count matching pods by domain; an empty selector counts none, although it matches the pod."""
    if selector is None or not selector.requirements:
        return domains.tally(eligible.nonzero()[0][:0])
    wanted = (PodMatch(frozenset({pod.namespace}), selector),)
    return pod_changes.tally(wanted, domains, among=eligible, terminating=False)


def _least(counts: Ints, domains: Domains, eligible: Mask, min_domains: int) -> int:
    """The lowest count of an eligible domain, 0 if there are fewer domains than `min_domains`."""
    present = domains.tally(eligible.nonzero()[0]) > 0
    if present.sum() < max(min_domains, 1):
        return 0
    return int(counts[present].min())
