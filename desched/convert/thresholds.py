"""Thresholds of other deschedulers as those of LoadAware, never so that more nodes overload."""

from typing import Any, NamedTuple

from desched.convert.draft import here
from desched.convert.original import OriginalSection
from desched.model.resources import Resource
from desched.policy_keys.findings import KeyPath

ALL = 100
UNWATCHED = "desched watches memory, cpu and pods, and as gpu the load of GPUs that pods share."
_WATCHED = tuple(resource.value for resource in (Resource.MEMORY, Resource.CPU, Resource.PODS))


class Bounds(NamedTuple):
    """The low thresholds and the targets in percent, both with the same resources."""

    low: dict[str, float]
    target: dict[str, float]


def bounds(
    section: OriginalSection, keys: tuple[str, str], at: KeyPath, *, deviation: bool
) -> Bounds:
    """The bounds at the keys of the low and the high thresholds; `at` is their section here.

    Left out is a resource that only one of the keys has, where that had no effect.
    """
    below, above = (section.section(key) for key in keys)
    low, high = ({name: each.number(name) for name in each} for each in (below, above))
    limits = Bounds({}, {})
    for name in dict.fromkeys((*high, *low)):
        if name not in _WATCHED:
            above.dropped(name, UNWATCHED)
            below.dropped(name, UNWATCHED)
        elif name not in low:
            text = f"has no counterpart in {keys[0]}, so it had no effect there either."
            above.dropped(name, text)
        elif deviation and not high.get(name):
            below.dropped(name, f"has no distance above 0 in {keys[1]}, so it had no effect there.")
        else:
            target = _target(above, name, (*at, "targetThresholds", name))
            limits.target[name] = target
            least = _low(below, name, (*at, "thresholds", name), least=1 if deviation else 0)
            limits.low[name] = least if deviation else min(least, target)
    return limits


def _target(above: OriginalSection, name: str, at: KeyPath) -> float:
    """The safe reading of a target: rather too high."""
    value = above.number(name)
    if value is None:
        return ALL
    if value == 0:
        above.changed(name, "0 made every node overloaded; 100 stops that, set your target.", at)
        return ALL
    if value < 1:
        meant = min(round(value * ALL, 6), ALL)
        text = f"{value:g} is less than one percent there; read as {meant:g} percent."
        above.changed(name, text, at)
        return meant
    if value > ALL:
        above.changed(name, f"{value:g} is never exceeded; 100 is the most here.", at)
    return min(value, ALL)


def _low(below: OriginalSection, name: str, at: KeyPath, *, least: float) -> float:
    """The safe reading of a low threshold: rather so that fewer nodes are underloaded."""
    value = below.number(name) or 0
    if 0 < value < 1:
        below.changed(
            name,
            f"{value:g} is less than one percent; read as {least:g}, so that "
            "fewer nodes are underloaded.",
            at,
        )
        return least
    return min(value, ALL)


def set_bounds(
    args: dict[str, Any],
    section: OriginalSection,
    limits: Bounds,
    keys: tuple[str, str],
    *,
    replaced: bool = False,
) -> None:
    """Put the bounds into the args of LoadAware; without any, no node overloads.

    With `replaced` they are not the original's, so that these have no other meaning here.
    """
    measured = [name for name in limits.target if name != "pods"]
    if not limits.target:
        limits = Bounds({"cpu": 0}, {"cpu": ALL})
        text = "there is no pair of thresholds that desched can use; with 100 no node overloads."
        section.added(text, here("targetThresholds"))
    elif measured and not (replaced or args.get("useDeviationThresholds")):
        section.changed(
            keys[1],
            f"{' and '.join(measured)} in percent of allocatable there, of capacity here, which is "
            "more: a node overloads a little later.",
            here("targetThresholds"),
        )
    args["targetThresholds"], args["thresholds"] = limits.target, limits.low
