"""PodGroups: how many pods of a group must run, as the objects of several systems say it.

Tenants write them. One that cannot be read keeps the pods of its own group, and nothing else.

Sources: volcano.sh/apis scheduling/v1beta1, sigs.k8s.io/scheduler-plugins scheduling/v1alpha1,
k8s.io/api scheduling/v1alpha2, KAI-Scheduler scheduling/v2alpha2.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Raw

from desched.adapters.kubernetes.client.access import (
    LIST_COSCHEDULING_GROUPS,
    LIST_KAI_GROUPS,
    LIST_KUBERNETES_GROUPS,
    LIST_VOLCANO_GROUPS,
    Access,
)
from desched.adapters.kubernetes.client.api_types import pod_groups
from desched.adapters.kubernetes.client.decoding import UNDECODABLE, RawDecoder
from desched.adapters.kubernetes.client.paged_reads import Kind
from desched.model.cluster import DeclaredGroup
from desched.model.text import shortened

_VOLCANO = RawDecoder(pod_groups.VolcanoSpec)
_VOLCANO_STATUS = RawDecoder(pod_groups.VolcanoStatus)
_COSCHEDULING = RawDecoder(pod_groups.CoschedulingSpec)
_KAI = RawDecoder(pod_groups.KaiSpec)
_KUBERNETES = RawDecoder(pod_groups.KubernetesSpec)

_ASSEMBLING = frozenset({"Pending", "Inqueue"})
_EMPTY = frozenset({b"", b"null", b"{}", b"[]", b'""'})
_ONE_BY_ONE = frozenset({b'"single"', b'"Single"', b'"Pod"'})

_Spec = Callable[[Raw, Raw], tuple[int | None, str]]
"""The minimum from the spec and the status of a PodGroup, and why none of its pods may leave."""


def _volcano(spec: Raw, status: Raw) -> tuple[int | None, str]:
    found = _VOLCANO(spec) or pod_groups.VolcanoSpec()
    phase = (_VOLCANO_STATUS(status) or pod_groups.VolcanoStatus()).phase
    if phase in _ASSEMBLING:
        return found.min_member, f"it is being assembled ({phase})"
    return found.min_member, _first(
        minTaskMember=found.min_task_member,
        networkTopology=found.network_topology,
        subGroupPolicy=found.sub_group_policy,
    )


def _coscheduling(spec: Raw, _status: Raw) -> tuple[int | None, str]:
    found = _COSCHEDULING(spec) or pod_groups.CoschedulingSpec()
    return found.min_member, ""


def _kai(spec: Raw, _status: Raw) -> tuple[int | None, str]:
    found = _KAI(spec) or pod_groups.KaiSpec()
    constraints = _first(subGroups=found.sub_groups, topologyConstraint=found.topology_constraint)
    return found.min_member, constraints


def _kubernetes(spec: Raw, _status: Raw) -> tuple[int | None, str]:
    found = _KUBERNETES(spec) or pod_groups.KubernetesSpec()
    policy = found.scheduling_policy or pod_groups.SchedulingPolicy()
    minimum = policy.gang.min_count if policy.gang is not None else None
    if policy.gang is None and bytes(policy.basic) not in {b"", b"null"}:
        minimum = 0
    if not _is_single(bytes(found.disruption_mode)):
        return minimum, "disruptionMode: its pods are only disrupted together"
    return minimum, _first(schedulingConstraints=found.scheduling_constraints)


def _is_single(mode: bytes) -> bool:
    return mode in _EMPTY | _ONE_BY_ONE or mode.startswith(b'{"single"')


def _first(**fields: Raw) -> str:
    """The first field that is there: what it demands is not evaluated."""
    found = (name for name, value in fields.items() if bytes(value) not in _EMPTY)
    name = next(found, "")
    return name and f"{name} of its PodGroup is not evaluated"


def _declared(system: str, read: _Spec, item: pod_groups.PodGroup) -> DeclaredGroup:
    try:
        minimum, stays = read(item.spec, item.status)
    except (*UNDECODABLE, ValueError) as error:
        minimum, stays = None, shortened(f"its PodGroup cannot be read: {error}")
    else:
        if minimum is None and not stays:
            stays = "its PodGroup does not say how many pods it needs"
    metadata = item.metadata
    return DeclaredGroup(system, metadata.namespace, metadata.name, max(minimum or 0, 0), stays)


def _kind(system: str, access: Access, read: _Spec) -> Kind[Any, DeclaredGroup]:
    build = partial(_declared, system, read)
    return Kind(access, pod_groups.PodGroup, build, is_optional=True, is_discovered=True)


POD_GROUPS: Mapping[str, tuple[Kind[Any, DeclaredGroup], ...]] = {
    "Volcano": (_kind("Volcano", LIST_VOLCANO_GROUPS, _volcano),),
    "coscheduling": (_kind("coscheduling", LIST_COSCHEDULING_GROUPS, _coscheduling),),
    "Kubernetes": tuple(
        _kind("Kubernetes", LIST_KUBERNETES_GROUPS._replace(version=version), _kubernetes)
        for version in ("v1alpha2", "v1beta1")
    ),
    "KAI": (_kind("KAI", LIST_KAI_GROUPS, _kai),),
}
"""The PodGroups of each system, in each version that is read."""
