"""What plugins ask of the plugin for networks."""

from desched.api_objects.plugin_kinds import ReadingPlugin
from desched.network.placement_domains import KNOWN_DOMAINS, PlacementDomains
from desched.policy.policy import Policy


class NetworkPlugin(ReadingPlugin, frozen=True):
    """The plugin that has the placement domains of the policy."""

    placement_domains: PlacementDomains = KNOWN_DOMAINS


def domains_of(policy: Policy) -> PlacementDomains:
    """The placement domains of the policy; none without the plugin for networks."""
    plugins = (plugin for plugin in policy.plugins if isinstance(plugin, NetworkPlugin))
    return next((plugin.placement_domains for plugin in plugins), PlacementDomains())
