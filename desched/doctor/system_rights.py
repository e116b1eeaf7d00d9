"""The rights that are granted for each system on its own."""

from collections.abc import Iterator

from desched.api_objects.plugin_kinds import ReadingPlugin, SystemRights
from desched.policy.policy import Policy


def system_rights(policy: Policy) -> Iterator[tuple[SystemRights, str]]:
    """The rights, each with why the policy does not need them, empty if it does."""
    for plugin in policy.plugins:
        if isinstance(plugin, ReadingPlugin):
            yield plugin.rights, plugin.why_unread
