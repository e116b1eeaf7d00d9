"""Constraints and preferences of a pod: affinity, tolerations, topology spread."""

import msgspec

from desched.api_objects.metadata import Int32, LabelSelector, NodeSelector, NodeSelectorTerm, Wire

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PreferredNodes(Wire):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Wire):
    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: list[PreferredNodes] | None = msgspec.field(default=None, name=_PREFERRED)


class PodAffinityTerm(Wire):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class PreferredPods(Wire):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire):
    required: list[PodAffinityTerm] | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: list[PreferredPods] | None = msgspec.field(default=None, name=_PREFERRED)


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TopologySpreadConstraint(Wire):
    topology_key: str
    max_skew: Int32
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None
