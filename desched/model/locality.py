"""Where pods are that belong together, and which nodes hold the models that pods need."""

import msgspec


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


class ModelNodes(msgspec.Struct, frozen=True, gc=False):
    """How many nodes hold a model that pods need, and how many `workloads` these are."""

    model: str
    nodes: int
    workloads: int
