"""The kinds of objects that the plugins read from the API server."""

from desched.api_objects.plugin_kinds import ReadingPlugin
from desched.plugins import HOUSE

PLUGIN_KINDS = tuple(plugin.kinds for plugin in HOUSE if isinstance(plugin, ReadingPlugin))
