"""The objects that say how many pods a gang needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from desched.api_objects.kinds import Kind, Lists
from desched.api_objects.plugin_kinds import PluginKinds, Reads, SystemRights
from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.gangs.pod_groups import declared_keys, groups_of
from desched.model.cluster import Node, Pod, Workload
from desched.model.extras import Extras
from desched.planning.eligibility.controllers import VOLCANO_JOB
from desched.plugins.gangs.jobs import VOLCANO_JOB_ACCESS, VOLCANO_JOBS
from desched.plugins.gangs.pod_groups import POD_GROUP_ACCESS, POD_GROUPS

DECLARED_GROUPS: Mapping[str, tuple[Kind[Any, DeclaredGroup], ...]] = {
    **POD_GROUPS,
    VOLCANO_JOB: (VOLCANO_JOBS,),
}
"""All objects that say how many pods a group needs, by its system."""

_KINDS = tuple(kind for kinds in DECLARED_GROUPS.values() for kind in kinds)


def _all(lists: Lists, _: Sequence[Node]) -> GangObjects:
    return GangObjects(tuple(group for kind in _KINDS for group in lists.all(kind)))


def _around(reads: Reads, pod: Pod, workload: Workload | None) -> GangObjects:
    """What the objects of the pod's groups say now."""
    groups = (
        reads.by_name(kind, name, namespace)
        for system, namespace, name in declared_keys(pod, workload)
        for kind in DECLARED_GROUPS[system]
    )
    return GangObjects(tuple(group for group in groups if group is not None))


def _needs_siblings(pod: Pod, workload: Workload | None, extras: Extras) -> bool:
    """Whether a gang may spare the pod or move whole."""
    groups = groups_of(pod, workload, GangObjects.of(extras).by_key)
    return any(group.whole or not group.stays for group in groups)


GANG_KINDS = PluginKinds(
    GangObjects,
    _KINDS,
    SystemRights(
        name="pod-groups",
        title="PodGroups",
        unread="Pods of gangs whose minimum only they have stay.",
        read={system: [kind.access for kind in kinds] for system, kinds in POD_GROUPS.items()},
        granted={**POD_GROUP_ACCESS, "volcano-jobs": VOLCANO_JOB_ACCESS},
    ),
    _all,
    _around,
    _needs_siblings,
)

RIGHTS_WITH_JOBS = GANG_KINDS.rights._replace(
    read={**GANG_KINDS.rights.read, "Volcano-Jobs": [VOLCANO_JOBS.access]}
)
"""The same with Volcano Jobs, which only a policy needs that lets their pods move."""
