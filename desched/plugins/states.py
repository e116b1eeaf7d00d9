"""The stored state with what plugins keep in it."""

import msgspec

from desched.model import stored_state
from desched.model.stored_state import PluginStates, StoredState
from desched.plugins import HOUSE

PLUGIN_STATES: PluginStates = {
    plugin.state.plugin: msgspec.json.Decoder(plugin.state)
    for plugin in HOUSE
    if plugin.state is not None
}


def decode_state(text: str | bytes) -> StoredState:
    """The state from the text; anything invalid becomes the problem."""
    return stored_state.decode(text, PLUGIN_STATES)
