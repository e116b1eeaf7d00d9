"""Ports whose calls may be a process' last: something is asked before and after each of them."""

import functools
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast

from desched.ports import World

P = TypeVar("P")


class Moment(StrEnum):
    """When in a call."""

    BEFORE = "before"
    AFTER = "after"


class Step(NamedTuple):
    """A moment of a call that a process makes to the world, such as `evictor.evict`."""

    call: str
    moment: Moment


Fate = Callable[[Step], None]
"""What happens at a step; it need not return."""


class _Mortal:
    """Stands for a port."""

    def __init__(self, port: Any, name: str, fate: Fate) -> None:
        self._port = port
        self._name = name
        self._fate = fate

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._port, attribute)
        if not callable(found):
            return found
        call = f"{self._name}.{attribute}"

        @functools.wraps(found)
        def called(*arguments: Any, **named: Any) -> Any:
            self._fate(Step(call, Moment.BEFORE))
            answer = found(*arguments, **named)
            self._fate(Step(call, Moment.AFTER))
            return answer

        return called


def mortal(port: P, name: str, fate: Fate) -> P:
    """The port, whose calls are steps with this name."""
    return cast("P", _Mortal(port, name, fate))


def mortal_world(world: World, fate: Fate) -> World:
    """The world, each call to which is a step."""
    return world._replace(
        cluster=mortal(world.cluster, "cluster", fate),
        load=mortal(world.load, "load", fate),
        clock=mortal(world.clock, "clock", fate),
        evictor=world.evictor and mortal(world.evictor, "evictor", fate),
        steerer=world.steerer and mortal(world.steerer, "steerer", fate),
    )
