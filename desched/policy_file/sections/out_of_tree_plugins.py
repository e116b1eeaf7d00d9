"""The plugins of others that take part."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from desched.errors import ConfigurationError
from desched.plugins.out_of_tree import OutOfTree
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, optional


class OutOfTreePlugin(Section):
    """A plugin that is installed where desched runs."""

    name: str = Field(min_length=1, examples=["oncall"])
    """The name of its entry point in the group `desched.plugins`."""
    args: dict[str, Any] | None = optional(example={"teams": ["payments"]})
    """Its arguments; the plugin says which there are."""


def out_of_tree_plugins(sections: Sequence[OutOfTreePlugin], notes: Notes) -> tuple[OutOfTree, ...]:
    """The plugins in their order; what is wrong with them is noted."""
    plugins: dict[str, OutOfTree] = {}
    for index, section in enumerate(sections):
        if section.name in plugins:
            notes.refuse("names this plugin a second time; remove one.", index, "name")
            continue
        try:
            plugins[section.name] = OutOfTree.named(section.name, section.args or {})
        except ConfigurationError as error:
            notes.refuse(str(error), index)
    return tuple(plugins.values())
