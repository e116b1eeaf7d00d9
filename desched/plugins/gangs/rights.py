"""The rights to read what objects say about gangs."""

from collections.abc import Mapping

from desched.api_objects.access import Access, list_and_watch

_NAMED_GANGS_STAY = "pods of groups whose minimum only these objects have stay"
_MINIMUM = "how many pods a gang needs"


def _pod_groups(group: str, version: str) -> tuple[Access, Access]:
    """The rights to read the PodGroups of this API group."""
    return list_and_watch(f"{group} podgroups", _MINIMUM, _NAMED_GANGS_STAY, version)


_SPARED = "which pods of a Volcano Job can move (`volcanoJobs: Surplus`)"
_JOBS_STAY = "all pods of Volcano Jobs stay"

POD_GROUP_ACCESS: Mapping[str, tuple[Access, ...]] = {
    "coscheduling": _pod_groups("scheduling.x-k8s.io", "v1alpha1"),
    "kai": _pod_groups("scheduling.run.ai", "v2alpha2"),
    "koordinator": _pod_groups("scheduling.sigs.k8s.io", "v1alpha1"),
    "kubernetes": _pod_groups("scheduling.k8s.io", "v1beta1"),
    "volcano": _pod_groups("scheduling.volcano.sh", "v1beta1"),
    "volcano-jobs": list_and_watch("batch.volcano.sh jobs", _SPARED, _JOBS_STAY, "v1alpha1"),
}
"""What each system with PodGroups needs, by its name in the values of the chart."""
