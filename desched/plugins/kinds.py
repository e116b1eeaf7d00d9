"""The kinds of objects that the plugins read from the API server."""

from desched.api_objects.plugin_kinds import ReadingPlugin
from desched.model.cluster import Pod, Workload
from desched.model.extras import Extras
from desched.plugins import HOUSE

PLUGIN_KINDS = tuple(plugin.kinds for plugin in HOUSE if isinstance(plugin, ReadingPlugin))


def siblings_decide(pod: Pod, workload: Workload | None, extras: Extras) -> bool:
    """Whether the other pods of its namespace decide about the pod."""
    return any(kinds.needs_siblings(pod, workload, extras) for kinds in PLUGIN_KINDS)
