"""What is idle of the GPUs of a cluster, and what it is good for."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import msgspec

from desched.model.cluster import PodRef
from desched.model.facts import Facts
from desched.model.plan import RefusalReason

SIZES = (1, 2, 4, 8)
"""The numbers of GPUs on one node for which places are counted."""


class GpusLeftOut(StrEnum):
    """Why the GPUs of a node are not counted."""

    SHARED = "shared_gpus"  # what is free of each device is not known
    CLOSED = "not_schedulable"  # the node takes no pods


class NodeGpus(msgspec.Struct, frozen=True, gc=False):
    """The whole GPUs of a node.

    `places` is, for 1, 2, 4 and 8 GPUs, how many pods with so many would find them idle; it counts
    GPUs only, not CPU or memory. `fragmented` is the fragmentation, in GPUs. `domain` is its
    narrowest placement domain in the network, empty without one. Of a node that is `left_out`, only
    `gpus` has a meaning, and only if they are whole.
    """

    node: str
    gpus: int
    idle: int
    places: Mapping[int, int]
    fragmented: float
    domain: str = ""
    left_out: GpusLeftOut | None = None


class DomainGpus(msgspec.Struct, frozen=True, gc=False):
    """The GPUs of the nodes of a placement domain that are not left out, at least one.

    `level` is the label, or what stands for the HyperNodes of a tier. `domain` has the values of
    the labels from the widest level to this one, or is the name of the HyperNode. The others are
    sums over its nodes.
    """

    level: str
    domain: str
    nodes: int
    gpus: int
    idle: int
    places: Mapping[int, int]
    fragmented: float


class StayingPods(msgspec.Struct, frozen=True, gc=False):
    """How many pods may not move for one reason."""

    reason: RefusalReason
    pods: int


class GpuAnswer(StrEnum):
    """What keeps pods from getting GPUs."""

    PODS_IN_THE_WAY = "pods_in_the_way"  # they hold what the nodes would have
    HAS_ROOM = "has_room"  # nodes have enough; something else keeps the pods from them
    TOO_LARGE = "too_large"  # no node would have enough without the pods on it
    NOT_ADMITTED = "not_admitted"  # their selectors and tolerations allow no node with GPUs
    NO_DOMAIN = "no_domain"  # no domain that their gang may be in has enough nodes
    NOT_SEARCHED = "not_searched"  # too many others wait


class PodInTheWay(msgspec.Struct, frozen=True, gc=False):
    """A pod that would have to leave its node; `reason` is why it may not, None if it may."""

    pod: PodRef
    gpus: int
    reason: RefusalReason | None = None
    detail: str = ""


class ClosestNode(msgspec.Struct, frozen=True, gc=False):
    """A node that would have room for `places` of the pods that wait if `leaving` left it."""

    node: str
    places: int
    leaving: tuple[PodInTheWay, ...] = ()


class GpuWait(msgspec.Struct, frozen=True, gc=False):
    """Pods that wait for GPUs, all alike: those of a gang, else of a workload, else one pod.

    Each needs `gpus` of the `resource` on one node. `gang` is empty without one; a gang needs
    places for all of `pods` at once, and other pods one by one. `nodes` are those from which the
    fewest pods would have to leave, and of equal ones the fewest that may not; of a gang so many
    that it has all its places. `detail` is specific to the answer.
    """

    pods: tuple[PodRef, ...]
    gang: str
    resource: str
    gpus: int
    answer: GpuAnswer
    nodes: tuple[ClosestNode, ...] = ()
    detail: str = ""

    @property
    def leaving(self) -> tuple[PodInTheWay, ...]:
        """All pods that would have to leave."""
        return tuple(pod for node in self.nodes for pod in node.leaving)


class ClusterGpus(Facts, frozen=True):
    """The GPUs of a cluster; sums are over the nodes that are not left out.

    `pods` is the number of pods with whole GPUs on all nodes. `movable_pods` of them may move by
    the rules of eligibility, although they have GPUs; `staying` has the others by reason, the most
    frequent first. `waits` are the pods that find no GPUs. `unknown_nodes` is the number of
    nodes with GPUs of unknown load, None if the policy has no target for gpu.
    """

    plugin: ClassVar[str] = "gpus"

    gpus: int
    idle: int
    places: Mapping[int, int]
    fragmented: float
    nodes: tuple[NodeGpus, ...]
    domains: tuple[DomainGpus, ...] = ()
    pods: int = 0
    movable_pods: int = 0
    staying: tuple[StayingPods, ...] = ()
    waits: tuple[GpuWait, ...] = ()
    unknown_nodes: int | None = None
