"""What the plugin for gangs observes."""

from typing import ClassVar

import msgspec

from desched.model.facts import Facts


class GangSpread(msgspec.Struct, frozen=True, gc=False):
    """How far apart the pods of a gang are.

    `domain` is the narrowest placement domain that has all of them, empty if none has. `closer` is
    the next narrower one with the most of its pods, and `outside` is how many pods would have to
    move there; empty and 0 if nothing narrower is known. `overloaded` is whether a pod of it is on
    an overloaded node.
    """

    gang: str
    pods: int
    nodes: int
    domain: str
    closer: str
    outside: int
    overloaded: bool


class GangFacts(Facts, frozen=True):
    """How far apart the pods of up to 50 gangs are."""

    plugin: ClassVar[str] = "gangs"

    spreads: tuple[GangSpread, ...] = ()
