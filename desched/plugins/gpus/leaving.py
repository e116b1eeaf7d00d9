"""Which pods could leave their nodes for the sake of GPUs."""

from desched.model.cluster import Pod, PodRef
from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import refuse
from desched.planning.eligibility.terms import Refused

ON_EVERY_NODE = frozenset({"DaemonSet", "Node"})
"""Owners that put a pod on every node; such a pod does not choose its node, and never leaves it."""


def chooses_its_node(pod: Pod) -> bool:
    """Whether the pod is of no DaemonSet, and not static."""
    return pod.owner is None or pod.owner.kind not in ON_EVERY_NODE


class Leaving:
    """The answers of the rules of eligibility, without the one that is about load only.

    That a pod has a GPU keeps it from moving for the load of its node, unless the policy allows it.
    """

    def __init__(self, context: EligibilityContext) -> None:
        self._context = context
        self._known: dict[PodRef, Refused] = {}

    def refuse(self, pod: Pod) -> Refused:
        """Return why the pod may not leave alone, None if it may."""
        if pod.ref not in self._known:
            self._known[pod.ref] = self._judged(pod)
        return self._known[pod.ref]

    def _judged(self, pod: Pod) -> Refused:
        without = {RefusalReason.GPU_POD}
        if not self._context.book.has_read_of(pod):
            without.add(RefusalReason.USAGE_UNKNOWN)  # nothing needed it
        return refuse(pod, self._context, without=without)
