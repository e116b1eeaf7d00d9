"""Which labels of nodes say where the network or the price of a group of nodes ends."""

import re
from enum import StrEnum

import msgspec

RUNGS: tuple[tuple[str, ...], ...] = (
    ("topology.gpustack.ai/zone", "topology.kubernetes.io/zone"),
    (
        "cloud.google.com/gce-topology-block",
        "topology.gke.io/cluster",
        "topology.k8s.aws/network-node-layer-1",
        "oci.oraclecloud.com/host.network_block_id",
        "fabric.topograph.run/tier-2",
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/datacenter",
        "topology.gpustack.ai/room",
        "volcano.sh/hypercluster",
    ),
    (
        "topology.gpustack.ai/rack",
        "cloud.google.com/gce-topology-subblock",
        "topology.gke.io/rack",
        "topology.k8s.aws/network-node-layer-2",
        "oci.oraclecloud.com/host.rack_id",
        "fabric.topograph.run/tier-1",
        "network.topology.nvidia.com/spine",
        "topology.kubernetes.io/rack",
        "volcano.sh/hypernode",
        "volcano.sh/rack",
    ),
    (
        "cloud.google.com/gce-topology-host",
        "topology.gke.io/host",
        "topology.k8s.aws/network-node-layer-3",
        "fabric.topograph.run/tier-0",
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/block",
        "topology.gpustack.ai/switch",
        "volcano.sh/tor",
    ),
    ("topology.k8s.aws/network-node-layer-4",),
)
"""The levels of networks from the widest to the narrowest, each with the labels that name it.

Somebody fills in those of GPUStack by hand, so that they count before what is discovered.
"""

HOSTS = (
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
    "oci.oraclecloud.com/host.id",
    "topology.gke.io/host",
)
"""Labels of single hosts: a value that one node has keeps nothing together."""

GROUPS = (
    "cloud.google.com/gke-placement-group",
    "cloud.google.com/placement-policy-name",
    "topology.k8s.aws/capacity-block-id",
)
"""Labels of nodes that belong together for every pod."""

ACCELERATOR_GROUPS = (
    "accelerator.topograph.run/domain",
    "accelerator.topograph.run/sub-domain",
    "network.topology.nvidia.com/accelerator",
    "nvidia.com/gpu.clique",
    "topology.gpustack.ai/accelerator-domain",
    "topology.k8s.aws/ultraserver-id",
)
"""Labels of nodes whose GPUs are connected to each other."""

EQUIVALENCE = (
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-os-distribution",  # TCPX runs on Container-Optimized OS only
)
"""Labels of nodes with the same GPUs, for pods with a fast network."""


_TIER = "topology.volcano.sh/tier-"
"""Followed by a number, it stands for the HyperNodes of that tier."""

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


def key_of_tier(tier: int) -> str:
    """What stands for the HyperNodes of a tier."""
    return f"{_TIER}{tier}"


def tier_of(key: str) -> int | None:
    """The tier of HyperNodes that a key stands for, None if it is one of labels."""
    number = key.removeprefix(_TIER)
    return int(number) if number != key and _NUMBER.fullmatch(number) else None


NO_TIER = 'names no tier of HyperNodes; write its number, as in "topology.volcano.sh/tier-1".'
"""The end of a sentence about such a key."""


def names_no_tier(key: str) -> bool:
    """Whether a key would stand for the HyperNodes of a tier, but has no number."""
    return key.startswith(_TIER) and tier_of(key) is None


class DomainMode(StrEnum):
    """Whether pods stay within their placement domains."""

    REQUIRE = "Require"
    PREFER = "Prefer"
    IGNORE = "Ignore"


class PlacementDomains(msgspec.Struct, frozen=True):
    """The labels that name domains; without any, a pod may go to every node.

    A pod stays within the value of each of `groups`, with a GPU also of `accelerator_groups`, and
    with a fast network also of `equivalence`. A pod of a gang stays as close to its nearest peer as
    it is, if `by_network`: by HyperNodes, by Topologies, and by `rungs`: of the labels of a rung,
    the first that a node has names its domain. `modes` are those of single labels and tiers, `mode`
    that of all others.
    """

    rungs: tuple[tuple[str, ...], ...] = ()
    groups: tuple[str, ...] = ()
    accelerator_groups: tuple[str, ...] = ()
    equivalence: tuple[str, ...] = ()
    mode: DomainMode = DomainMode.IGNORE
    modes: tuple[tuple[str, DomainMode], ...] = ()

    def mode_of(self, key: str) -> DomainMode:
        """How the label of a level or of a group counts."""
        return next((mode for label, mode in self.modes if label == key), self.mode)

    @property
    def by_network(self) -> bool:
        """Whether levels of the network count at all."""
        modes = self.mode, *(mode for _, mode in self.modes)
        return any(mode is not DomainMode.IGNORE for mode in modes)

    @property
    def keys(self) -> frozenset[str]:
        """All labels of nodes that are read."""
        of_rungs = (key for rung in self.rungs for key in rung)
        return frozenset((*of_rungs, *self.groups, *self.accelerator_groups, *self.equivalence))


KNOWN_DOMAINS = PlacementDomains(RUNGS, GROUPS, ACCELERATOR_GROUPS, EQUIVALENCE, DomainMode.REQUIRE)
"""Those of the platforms that are known."""
