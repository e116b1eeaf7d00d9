"""What objects of several systems say about gangs."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar

import msgspec

from desched.gangs.topology import GroupTopology
from desched.model.bounds import Count
from desched.model.extras import Objects
from desched.model.names import Form, Instead, LabeledName, LabelValue, Namespace, Plain
from desched.model.selectors import LabelSelector

GroupKey = tuple[str, str, str]
"""The system, the namespace and the name of a group."""

GangKey = tuple[str, str, str, str]
"""The same with the part of the group, which is empty for the whole."""


class GroupPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a group: at least `minimum` of the pods that the selector chooses must run.

    With `match_label_keys`, the pods that have the same values of these labels are a part of their
    own; a pod that lacks one is in none.
    """

    name: LabelValue
    minimum: Count
    selector: LabelSelector
    match_label_keys: tuple[Plain, ...] = ()


class DeclaredGroup(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What an object of a system says about a group: how many of its pods must run.

    `stays` is why no pod of it may leave, whatever runs; empty if the minimum decides. If there are
    `parts`, each of them keeps its own minimum too; a pod is in the first that it matches, and one
    in none of them stays. `topology` is how near to each other its pods must be. `together`: all
    pods of the group may leave at once, whatever keeps a single one. A disruption budget of its
    system needs `budget` of its pods, also if all of them would leave. It is in the `queue` of its
    system, empty for the default one, and `waits` there to be admitted.
    """

    system: Plain
    namespace: Namespace
    name: Annotated[str, Form.GROUP]
    minimum: Count = 0
    stays: Annotated[str, Instead("its PodGroup")] = ""
    parts: tuple[GroupPart, ...] = ()
    topology: GroupTopology | None = None
    together: bool = False
    budget: Count = 0
    queue: LabeledName = ""
    waits: bool = False


class GangObjects(Objects, frozen=True):
    """What objects say about gangs."""

    plugin: ClassVar[str] = "gangs"

    groups: tuple[DeclaredGroup, ...] = ()

    @cached_property
    def by_key(self) -> Mapping[GroupKey, DeclaredGroup]:
        """The groups by their keys."""
        return {(group.system, group.namespace, group.name): group for group in self.groups}
