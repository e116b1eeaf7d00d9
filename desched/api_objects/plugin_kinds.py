"""Plugins that read kinds of objects of their own, and the rights for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from desched.api_objects.access import Access
from desched.api_objects.kinds import Kind, Lists
from desched.model.cluster import Node, Pod, Workload
from desched.model.extras import Extras, Objects
from desched.planning.plugins import Plugin

W = TypeVar("W")
V = TypeVar("V")


class Reads(Protocol):
    """Reads single objects as they are now."""

    def by_name(self, kind: Kind[W, V], name: str, namespace: str = "") -> V | None:
        """The object of this name, None if there is none."""


class SystemRights(NamedTuple):
    """Rights that are granted for each system on its own.

    `title` names the objects for people, and `unread` says what happens if they are not read.
    `read` are the rights to list objects of a system, in all versions that are read; `granted` has
    all rights that it needs, by its lower-case name.
    """

    name: str
    title: str
    unread: str
    read: Mapping[str, Sequence[Access]]
    granted: Mapping[str, tuple[Access, ...]]

    @property
    def folder(self) -> str:
        """The folder with a ClusterRole for each system."""
        return f"deploy/{self.name}"

    @property
    def key(self) -> str:
        """What grants them in the values of the chart."""
        first, *others = self.name.split("-")
        return f"rights.{first}{''.join(map(str.capitalize, others))}"


class PluginKinds(NamedTuple):
    """The kinds that a plugin reads, and how it makes what it keeps of them.

    `build` makes it of all objects and the nodes of the cluster. `around` reads again what a pod
    needs just before its eviction; most objects change too rarely for that. `needs_siblings` says
    whether the other pods of its namespace decide about it then.
    """

    keeps: type[Objects]
    kinds: tuple[Kind[Any, Any], ...]
    rights: SystemRights
    build: Callable[[Lists, Sequence[Node]], Objects]
    around: Callable[[Reads, Pod, Workload | None], Objects | None] = lambda *_: None
    needs_siblings: Callable[[Pod, Workload | None, Extras], bool] = lambda *_: False


class ReadingPlugin(Plugin, frozen=True):
    """A plugin that reads kinds of objects of its own."""

    kinds: ClassVar[PluginKinds]

    @property
    def rights(self) -> SystemRights:
        """The rights that the policy needs."""
        return self.kinds.rights

    @property
    def why_unread(self) -> str:
        """Why the policy does not need them; empty if it does."""
        return ""
