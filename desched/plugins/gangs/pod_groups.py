"""PodGroups: how many pods of a group must run, as the objects of several systems say it.

Tenants write them. One that cannot be read keeps the pods of its own group, and nothing else.

Sources: volcano.sh/apis scheduling/v1beta1, sigs.k8s.io/scheduler-plugins scheduling/v1alpha1 and
Koordinator's copy of it, k8s.io/api scheduling/v1alpha2, KAI-Scheduler scheduling/v2alpha2.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Raw

from desched.api_objects import metadata
from desched.api_objects.access import Access, list_and_watch
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind
from desched.api_objects.memory_bounds import LARGEST_JSON_BYTES, ORDINARY_BYTES, kept_bytes
from desched.api_objects.metadata import Int32
from desched.api_objects.selectors import label_selector
from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.pod_groups import (
    BUDGET_LEAST,
    BUDGET_MOST,
    KOORDINATOR_STAYS_BY,
    SUB_GROUP,
    TASK,
    keeping,
    numbers,
)
from desched.gangs.topology import GroupTopology
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.text import TRUE, shortened
from desched.planning.eligibility.annotations import PREEMPTABLE
from desched.planning.eligibility.controllers import LONGEST_NAME
from desched.plugins.gangs import wire


def _rights(group: str, version: str) -> tuple[Access, Access]:
    """The rights to read the PodGroups of this API group."""
    without = "pods of groups whose minimum only these objects have stay"
    return list_and_watch(f"{group} podgroups", "how many pods a gang needs", without, version)


POD_GROUP_ACCESS: Mapping[str, tuple[Access, ...]] = {
    "coscheduling": _rights("scheduling.x-k8s.io", "v1alpha1"),
    "kai": _rights("scheduling.run.ai", "v2alpha2"),
    "koordinator": _rights("scheduling.sigs.k8s.io", "v1alpha1"),
    "kubernetes": _rights("scheduling.k8s.io", "v1beta1"),
    "volcano": _rights("scheduling.volcano.sh", "v1beta1"),
}
"""What each system with PodGroups needs, by its name in the values of the chart."""

_STATUS = RawDecoder(wire.Status)
_VOLCANO = RawDecoder(wire.VolcanoSpec)
_TASKS = RawDecoder(dict[str, Int32])
_POLICIES = RawDecoder(list[wire.SubGroupPolicy])
_VOLCANO_TOPOLOGY = RawDecoder(wire.VolcanoTopology)
_COSCHEDULING = RawDecoder(wire.CoschedulingSpec)
_KAI = RawDecoder(wire.KaiSpec)
_SUB_GROUPS = RawDecoder(list[wire.KaiSubGroup])
_FIELDS = RawDecoder(dict[str, Raw])
_LIST = RawDecoder(list[Raw])
_TEXT = RawDecoder(str)
_TEXTS = RawDecoder(dict[str, str])
_KUBERNETES = RawDecoder(wire.KubernetesSpec)

LARGEST_PARTS_BYTES, MOST_PARTS = 8192, 64
"""All pods of a group are compared with all its parts."""

_QUEUED = frozenset({"", "Pending", "Inqueue"})
"""Phases of Volcano in which a group has not got its share."""
_ASSEMBLING = frozenset({"Pending", "Inqueue", "PreScheduling", "Scheduling"})
_EMPTY = frozenset({b"", b"null", b"{}", b"[]", b'""'})
_ONE_BY_ONE = frozenset({b'"single"', b'"Single"', b'"Pod"'})
_TOGETHER = frozenset({b'"all"', b'"All"', b'"PodGroup"'})


class _Needs(NamedTuple):
    """The minimum of a PodGroup and of its parts, and why none of its pods may leave alone.

    `budget` is the minimum of a disruption budget, which also counts if all of them leave. The
    group `waits` in its `queue` to be admitted.
    """

    minimum: int | None
    stays: str = ""
    parts: tuple[GroupPart, ...] = ()
    topology: GroupTopology | None = None
    together: bool = False
    budget: int = 0
    queue: str = ""
    waits: bool = False


_Read = Callable[[wire.PodGroup], _Needs]


def _texts(raw: Raw) -> dict[str, str]:
    """A mapping of texts, such as labels."""
    return _TEXTS(raw) or {}


def _volcano(item: wire.PodGroup) -> _Needs:
    spec = _VOLCANO(item.spec) or wire.VolcanoSpec()
    topology, unclear = _volcano_topology(spec.network_topology)
    budget, keeps = _budget(_texts(item.metadata.annotations))
    minima = [minimum for minimum in (spec.min_member, budget) if minimum is not None]
    stays = _assembling(item) or unclear or _not_preemptable(item.metadata) or keeps
    needs = _volcano_needs(spec, max(minima, default=None), stays)
    return needs._replace(
        topology=None if needs.stays else topology,
        budget=budget or 0,
        # No object has a longer name, so that too long a one matches none.
        queue=spec.queue[: LONGEST_NAME + 1],
        waits=_phase(item) in _QUEUED,
    )


def _volcano_needs(spec: wire.VolcanoSpec, minimum: int | None, stays: str) -> _Needs:
    tasks, policies = spec.min_task_member, spec.sub_group_policy
    if _is_set(tasks) and _is_set(policies):
        stays = stays or _not_evaluated("minTaskMember with subGroupPolicy")
    stays = stays or _too_large(minTaskMember=tasks, subGroupPolicy=policies)
    if stays:
        return _Needs(minimum, stays)
    if _is_set(tasks):
        return _Needs(minimum, "", _tasks(_TASKS(tasks) or {}))
    return _with_policies(minimum, _POLICIES(policies) or ())


def _budget(annotations: Mapping[str, str]) -> tuple[int | None, str]:
    """How many pods its disruption budget needs, and why all of them stay.

    Volcano's scheduler reads the budget here only, wherever its controllers copied it from.
    """
    least, unclear = numbers((BUDGET_LEAST,), [annotations])
    keeps = (*keeping((BUDGET_MOST,), [annotations]), *unclear)
    return next(iter(least), None), next(iter(keeps), "")


def _not_preemptable(of: metadata.Metadata) -> str:
    """Why Volcano evicts none of its pods; it does if nothing is said."""
    texts = {**_texts(of.labels), **_texts(of.annotations)}
    value = texts.get(PREEMPTABLE, "true")
    return "" if value.lower() in TRUE else f'{PREEMPTABLE}: "{value}" on its PodGroup'


def _volcano_topology(demand: Raw) -> tuple[GroupTopology | None, str]:
    """How near its pods must be to each other, and why they stay if that is not known."""
    if not _is_set(demand):
        return None, ""
    wanted = _VOLCANO_TOPOLOGY(demand) or wire.VolcanoTopology()
    unclear = f"the mode {wanted.mode} of its networkTopology is not known"
    tier, name = wanted.highest_tier_allowed, wanted.highest_tier_name
    is_known = wanted.mode in {"hard", "soft"}
    return GroupTopology(wanted.mode == "hard", tier, name), "" if is_known else unclear


def _tasks(minima: Mapping[str, int]) -> tuple[GroupPart, ...]:
    return tuple(labelled_part(TASK, task, minimum) for task, minimum in minima.items())


def _with_policies(minimum: int | None, policies: Sequence[wire.SubGroupPolicy]) -> _Needs:
    """All subgroups keep their size, however many of them `minSubGroups` needs.

    Versions of Volcano differ in what a policy without `matchLabelKeys` is.
    """
    for policy in policies:
        stays = _first(**{"networkTopology of a subGroupPolicy": policy.network_topology})
        if not policy.match_label_keys:
            stays = stays or _not_evaluated("a subGroupPolicy without matchLabelKeys")
        if stays:
            return _Needs(minimum, stays)
    parts = (
        GroupPart(
            policy.name or "subgroup",
            max(1 if policy.sub_group_size is None else policy.sub_group_size, 0),
            label_selector(policy.label_selector or metadata.LabelSelector()),
            tuple(policy.match_label_keys or ()),
        )
        for policy in policies
    )
    return _distinct(minimum, tuple(parts))


def _coscheduling(item: wire.PodGroup) -> _Needs:
    spec = _COSCHEDULING(item.spec) or wire.CoschedulingSpec()
    keeps = keeping(KOORDINATOR_STAYS_BY, [_texts(item.metadata.annotations)])
    return _Needs(spec.min_member, _assembling(item) or next(iter(keeps), ""))


def _kai(item: wire.PodGroup) -> _Needs:
    """All subgroups keep their minimum, however many of them `minSubGroup` needs."""
    spec = _KAI(item.spec) or wire.KaiSpec()
    topology, stays = _kai_topology(spec.topology_constraint)
    stays = stays or _too_large(subGroups=spec.sub_groups)
    groups = () if stays else _SUB_GROUPS(spec.sub_groups) or ()
    above = {group.parent for group in groups if group.parent}
    parts = []
    for group in groups:
        stays = stays or _first(**{"topologyConstraint of a subGroup": group.topology_constraint})
        if group.name not in above:
            if group.min_member is None:
                stays = stays or "one of its subGroups does not say how many pods it needs"
            parts.append(labelled_part(SUB_GROUP, group.name, group.min_member or 0))
    if groups and not parts:
        stays = stays or "its subGroups are a circle"
    if stays:
        return _Needs(spec.min_member, stays)
    return _distinct(spec.min_member, tuple(parts))._replace(topology=topology)


def _kai_topology(demand: Raw) -> tuple[GroupTopology | None, str]:
    """How near its pods must be to each other, and why they stay if that is not known.

    KAI ignores a constraint without a Topology, and places no pod of one without a level.
    """
    levels = "requiredTopologyLevel", "preferredTopologyLevel"
    fields, stays = _fields("topologyConstraint", demand, "topology", *levels)
    name, required, preferred = (
        _TEXT(fields.get(key, Raw())) or "" for key in ("topology", *levels)
    )
    if stays or not name:
        return None, stays
    if not required and not preferred:
        return None, "the topologyConstraint of its PodGroup names no level"
    return GroupTopology(bool(required), None, "", required, preferred, name), ""


def labelled_part(key: str, value: str, minimum: int) -> GroupPart:
    """The part whose pods have this value of the label; it is named by it."""
    selector = LabelSelector((Requirement(key, Operator.IN, (value,)),))
    return GroupPart(value, max(minimum, 0), selector)


def _distinct(minimum: int | None, parts: tuple[GroupPart, ...]) -> _Needs:
    """Parts of one name would be counted together."""
    if len({part.name for part in parts}) < len(parts):
        return _Needs(minimum, "several of its subgroups have one name")
    return _Needs(minimum, "", parts)


def _kubernetes(item: wire.PodGroup) -> _Needs:
    spec = _KUBERNETES(item.spec) or wire.KubernetesSpec()
    policy = spec.scheduling_policy or wire.SchedulingPolicy()
    minimum = policy.gang.min_count if policy.gang is not None else None
    if policy.gang is None and bytes(policy.basic) not in {b"", b"null"}:
        minimum = 0
    topology, unclear = _kubernetes_topology(spec.scheduling_constraints)
    mode = spec.disruption_mode
    if _is(mode, _EMPTY | _ONE_BY_ONE, b'{"single"'):
        return _Needs(minimum, unclear, topology=topology)
    together = not unclear and _is(mode, _TOGETHER, b'{"all"')
    stays = "disruptionMode: its pods are only disrupted together"
    return _Needs(minimum, stays, topology=topology, together=together)


def _kubernetes_topology(demand: Raw) -> tuple[GroupTopology | None, str]:
    """The label of which its pods must have one value, and why they stay if that is not known."""
    fields, stays = _fields("schedulingConstraints", demand, "topology")
    keys = _LIST(fields.get("topology", Raw())) or []
    if len(keys) > 1:
        stays = stays or _not_evaluated("more than one topology")
    if stays or not keys:
        return None, stays
    labels, stays = _fields("topology", keys[0], "key")
    key = _TEXT(labels.get("key", Raw())) or ""
    if not key:
        stays = stays or "the topology of its PodGroup names no label"
    return GroupTopology(hard=True, level=key), stays


def _is(mode: Raw, names: frozenset[bytes], begins: bytes) -> bool:
    """Whether the mode has one of these names, or is the object of one."""
    return bytes(mode) in names or bytes(mode).startswith(begins)


def _phase(item: wire.PodGroup) -> str:
    return (_STATUS(item.status) or wire.Status()).phase


def _assembling(item: wire.PodGroup) -> str:
    phase = _phase(item)
    return f"it is being assembled ({phase})" if phase in _ASSEMBLING else ""


def _first(**fields: Raw) -> str:
    """The first field that is there: what it demands is not evaluated."""
    name = next((name for name, value in fields.items() if _is_set(value)), "")
    return name and _not_evaluated(name)


def _fields(what: str, demand: Raw, *names: str) -> tuple[dict[str, Raw], str]:
    """The fields that are there, and why the pods stay if one of them is not known."""
    fields = {name: value for name, value in (_FIELDS(demand) or {}).items() if _is_set(value)}
    other = next((name for name in sorted(fields) if name not in names), "")
    return fields, other and _not_evaluated(f"{other} in the {what}")


def _too_large(**fields: Raw) -> str:
    large = (name for name, value in fields.items() if len(bytes(value)) > LARGEST_PARTS_BYTES)
    name = next(large, "")
    return name and _not_evaluated(f"more than {LARGEST_PARTS_BYTES} bytes of {name}")


def _is_set(value: Raw) -> bool:
    return bytes(value) not in _EMPTY


def _not_evaluated(what: str) -> str:
    return f"{what} of its PodGroup is not evaluated"


def _declared(system: str, read: _Read, item: wire.PodGroup) -> DeclaredGroup:
    try:
        needs = read(item)
    except (*UNDECODABLE, ValueError) as error:
        needs = _Needs(None, shortened(f"its PodGroup cannot be read: {error}"))
    minimum, stays, parts, topology, together, budget, queue, waits = needs
    if len(parts) > MOST_PARTS:
        parts, stays = (), stays or _not_evaluated(f"more than {MOST_PARTS} parts")
    if minimum is None and not stays and not parts:
        stays = "its PodGroup does not say how many pods it needs"
    together &= minimum is not None
    if topology is not None and kept_bytes(topology) > ORDINARY_BYTES:
        topology, stays = None, stays or _not_evaluated("a topology with such long names")
    stays = shortened(stays)
    namespace, name, least = item.metadata.namespace, item.metadata.name, max(minimum or 0, 0)
    return DeclaredGroup(
        *(system, namespace, name, least, stays, parts, topology, together, budget, queue, waits)
    )


def group_kind(
    access: Access,
    form: type[wire.PodGroup],
    build: Callable[[Any], DeclaredGroup],
) -> Kind[Any, DeclaredGroup]:
    """Objects that say what a group needs; their parts and texts are bounded on their own."""
    return Kind(*(access, form, build), is_optional=True, is_discovered=True, size_of=_read_bytes)


def _read_bytes(item: wire.PodGroup) -> int:
    return min(memoryview(item.spec).nbytes, LARGEST_JSON_BYTES)


def _kinds(system: str, read: _Read, *versions: str) -> tuple[Kind[Any, DeclaredGroup], ...]:
    """The PodGroups of a system, in these versions if there are several."""
    access = POD_GROUP_ACCESS[system.lower()][0]
    build = partial(_declared, system, read)
    return tuple(
        group_kind(access._replace(version=version), wire.PodGroup, build)
        for version in versions or (access.version,)
    )


POD_GROUPS: Mapping[str, tuple[Kind[Any, DeclaredGroup], ...]] = {
    "Volcano": _kinds("Volcano", _volcano),
    "coscheduling": _kinds("coscheduling", _coscheduling),
    "Kubernetes": _kinds("Kubernetes", _kubernetes, "v1alpha2", "v1beta1"),
    "Koordinator": _kinds("Koordinator", _coscheduling),
    "KAI": _kinds("KAI", _kai),
}
"""The PodGroups of each system, in each version that is read."""
