"""The pods of overloaded nodes that may be moved, and why the others must stay."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from desched.model.cluster import Pod, Workload
from desched.model.plan import Finding, Refusal, RefusalReason
from desched.model.resources import Resource
from desched.model.text import shortened
from desched.planning.arrays import Floats
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.outlook import Pasts
from desched.planning.placement.replacement import replacement_of
from desched.planning.selection.eviction_cost import cost


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A pod that may be moved.

    `usage` has one value for each window of a resource. `charge` is the usage that a destination is
    charged. `cost` is the cost of the eviction. `measured` is the highest measured usage of each
    resource, watched or not. `queue` is in which queue its replacement waits again. `past` is what
    it used at the points of the forecast, shape (points, resources).
    """

    pod: Pod
    usage: Mapping[Resource, tuple[float, ...]]
    charge: Mapping[Resource, float]
    past: Floats
    cost: float = 1.0
    workload: Workload | None = None
    measured: Mapping[Resource, float] = {}
    queue: str = ""


class OverloadedNode(msgspec.Struct, frozen=True):
    """An overloaded node and those of its pods that may be moved, by name.

    `later` are pods that may be moved once the moves of their workloads under way have ended.
    `refused` counts its other pods by what refuses them.
    """

    loaded: LoadedNode
    candidates: tuple[Candidate, ...]
    later: tuple[Candidate, ...] = ()
    refused: Mapping[RefusalReason, int] = {}

    @property
    def name(self) -> str:
        """The node's name."""
        return self.loaded.node.name

    @property
    def pods(self) -> list[str]:
        """The uids of the pods that may be moved."""
        return [candidate.pod.uid for candidate in self.candidates]

    def with_later(self) -> "OverloadedNode":
        """The node with all pods that may be moved now or later."""
        return msgspec.structs.replace(self, candidates=(*self.candidates, *self.later), later=())


class Sifted(msgspec.Struct, frozen=True):
    """The sources with their candidates, most expected overload first, and the refused pods."""

    nodes: tuple[OverloadedNode, ...]
    refusals: tuple[Refusal, ...]


def sift(pressure: Pressure, eligibility: Eligibility) -> Sifted:
    """Split the pods of each overloaded node into candidates and refusals."""
    outlook = pressure.outlook
    sources = sorted(
        pressure.sources, key=lambda s: (-round(outlook.of(s.node.name), 3), s.node.name)
    )
    refusals: list[Refusal] = []
    nodes = tuple(_sifted(loaded, eligibility, outlook.pasts, refusals) for loaded in sources)
    return Sifted(nodes, tuple(refusals))


def _sifted(
    loaded: LoadedNode, eligibility: Eligibility, pasts: Pasts, refusals: list[Refusal]
) -> OverloadedNode:
    """The node with its candidates; adds the refusals of the other pods."""
    context = eligibility.context
    movable: list[Candidate] = []
    later: list[Candidate] = []
    refused = Counter[RefusalReason]()
    for pod in context.cluster.pods_by_node.get(loaded.node.name, ()):
        finding = eligibility.refuse(pod)
        if finding is None:
            movable.append(candidate_of(pod, context, pasts))
            continue
        refusals.append(refusal_of(pod, finding))
        refused[finding.reason] += 1
        if eligibility.waits_for_moves(pod):
            later.append(candidate_of(pod, context, pasts))
    return OverloadedNode(loaded, _by_name(movable), _by_name(later), refused)


def _by_name(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(sorted(candidates, key=lambda candidate: candidate.pod.ref))


def refusal_of(pod: Pod, finding: Finding[RefusalReason]) -> Refusal:
    """Return the refusal of the pod for this reason, as a plan lists it."""
    return Refusal(pod.ref, pod.node, finding.reason, shortened(finding.detail))


def candidate_of(pod: Pod, context: EligibilityContext, pasts: Pasts) -> Candidate:
    """Return the pod as a candidate, with the relief, the charge and the cost of its move."""
    book, workload = context.book, context.cluster.workload_of(pod)
    return Candidate(
        replacement_of(pod, workload),
        {resource: book.relief(pod, resource) for resource in book.windows},
        book.charge(pod),
        pasts.lasting(pod),
        cost(pod, workload, context.now) + context.extra_cost(pod),
        workload,
        {resource: max(book.measured(pod, resource), default=0.0) for resource in Resource},
        context.after_eviction(pod),
    )
