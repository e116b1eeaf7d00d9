"""The rights that are granted for each system on its own."""

from collections.abc import Iterator

from desched.adapters.kubernetes.client.access import LIST_VOLCANO_JOBS, POD_GROUP_ACCESS
from desched.adapters.kubernetes.objects.pod_groups import POD_GROUPS
from desched.api_objects.plugin_kinds import ReadingPlugin, SystemRights
from desched.gangs.members import counts_volcano_jobs
from desched.policy.policy import Policy

_OF_POD_GROUPS = SystemRights(
    name="pod-groups",
    title="PodGroups",
    unread="Pods of gangs whose minimum only they have stay.",
    read={system: [kind.access for kind in kinds] for system, kinds in POD_GROUPS.items()},
    granted=POD_GROUP_ACCESS,
)
_WITH_VOLCANO_JOBS = _OF_POD_GROUPS._replace(
    read={**_OF_POD_GROUPS.read, "Volcano-Jobs": [LIST_VOLCANO_JOBS]},
)
"""The same with Volcano Jobs, which only a policy needs that lets their pods move."""


def system_rights(policy: Policy) -> Iterator[tuple[SystemRights, str]]:
    """The rights, each with why the policy does not need them, empty if it does."""
    moves_jobs = counts_volcano_jobs(policy)
    yield _WITH_VOLCANO_JOBS if moves_jobs else _OF_POD_GROUPS, ""
    for plugin in policy.plugins:
        if isinstance(plugin, ReadingPlugin):
            yield plugin.kinds.rights, plugin.why_unread
