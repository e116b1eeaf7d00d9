"""When each resource makes a node overloaded: thresholds and margins of LoadAware."""

import msgspec

from desched.model.resources import Resource
from desched.policy.compatibility import Defaults
from desched.policy.policy import ResourceRule
from desched.policy_file.sections.windows import (
    DestinationWindows,
    Windows,
    destination_windows_of,
    windows_of,
)
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section
from desched.policy_keys.values import Percent

LEAST_USUAL_TARGET = 10
"""Percent; under this load nearly no node runs."""
HIGHEST_PERCENT = 100


class ResourcePercentages(Section):
    """A percentage for each resource that is watched; at least one."""

    key_noun = "resource"

    cpu: Percent | None = None
    """CPU, percent of the node's capacity."""
    memory: Percent | None = None
    """Memory, percent of the node's capacity."""
    gpu: Percent | None = None
    """GPUs of NVIDIA that pods share, percent of the time that they are busy, by DCGM's
    exporter; beside `cpu` or `memory`."""
    pods: Percent | None = None
    """Number of pods, percent of the node's allocatable pods."""


class Lines(msgspec.Struct, frozen=True):
    """What makes a node overloaded, of all nodes or of a pool: keys as they are written."""

    thresholds: ResourcePercentages
    target_thresholds: ResourcePercentages
    stop_margin: float | None
    ceiling_margin: float | None
    is_deviation: bool
    windows: Windows | None
    usual_window_seconds: int
    destination_windows: DestinationWindows | None
    defaults: Defaults


def rules_between(lines: Lines, notes: Notes) -> tuple[ResourceRule, ...]:
    """A rule for each resource that has a low threshold and a target."""
    low = _percentages("thresholds", lines.thresholds, lines.target_thresholds, notes)
    targets = _percentages("targetThresholds", lines.target_thresholds, lines.thresholds, notes)
    return tuple(
        _rule(lines, resource, low[resource], targets[resource], notes)
        for resource in Resource
        if resource in low and resource in targets
    )


def _rule(
    lines: Lines, resource: Resource, low: float, target: float, notes: Notes
) -> ResourceRule:
    if target == 0:
        text = "found 0, which makes every node overloaded; raise it."
        notes.refuse(text, "targetThresholds", resource.value)
    elif not lines.is_deviation and low > target:
        notes.refuse(
            f"found {low:g}, which is above targetThresholds.{resource.value} ({target:g}); the "
            "low threshold must not be above the target.",
            "thresholds",
            resource.value,
        )
    elif not lines.is_deviation and target < LEAST_USUAL_TARGET:
        text = f"is {target:g} percent, so that nearly every node is overloaded."
        notes.warn(text, "targetThresholds", resource.value)
    stop_margin, ceiling_margin = _margins(lines, resource, target, notes)
    is_absolute = lines.stop_margin is not None and not lines.is_deviation
    # A target of 100 stands in for one that is invalid.
    if is_absolute and 0 <= target - stop_margin < low < target < HIGHEST_PERCENT:
        notes.refuse(
            f"found {stop_margin:g}, so that relief would end at {target - stop_margin:g} percent, "
            f"below thresholds.{resource.value} ({low:g}); give at most {target - low:g}.",
            "stopMargin",
        )
    return ResourceRule(
        resource=resource,
        low_ratio=low / 100,
        target_ratio=target / 100,
        stop_margin_ratio=stop_margin / 100,
        ceiling_margin_ratio=ceiling_margin / 100,
        windows_seconds=windows_of(resource, lines.windows, lines.usual_window_seconds, notes),
        destination_windows=destination_windows_of(resource, lines.destination_windows, notes),
    )


def _percentages(
    key: str, section: ResourcePercentages, other: ResourcePercentages, notes: Notes
) -> dict[Resource, float]:
    """The percentages of one section, which must have the same resources as the other."""
    given = section.model_fields_set
    if not given:
        notes.refuse('is empty; give at least one resource, such as "cpu: 80".', key)
    elif missing := sorted(other.model_fields_set - given):
        other_key = "targetThresholds" if key == "thresholds" else "thresholds"
        notes.refuse(
            f"has no {' and no '.join(missing)}, but {other_key} has; "
            "both must name the same resources.",
            key,
        )
    percentages: dict[Resource, float | None] = {r: getattr(section, r.value) for r in Resource}
    for name in given:
        if getattr(section, name) is None:
            notes.refuse("found null, allowed is a number from 0 to 100.", key, name)
    return {resource: value for resource, value in percentages.items() if value is not None}


def _margins(lines: Lines, resource: Resource, target: float, notes: Notes) -> tuple[float, float]:
    """The stop margin and the ceiling margin; defaults shrink so that they fit a low target."""
    given, defaults = lines.ceiling_margin, lines.defaults
    at_most = target if given is None else given
    stop = lines.stop_margin
    if stop is None:
        stop = min(defaults.stop_margin, target / 2, at_most)
    ceiling = max(min(defaults.ceiling_margin, target), stop) if given is None else given
    if stop == 0 < min(target, defaults.stop_margin):
        notes.refuse(
            "found 0, relief must end under the target; give at least 1.",
            "ceilingMargin" if lines.stop_margin is None else "stopMargin",
        )
    elif ceiling < stop:
        notes.refuse(
            f"found {ceiling:g}, which is less than stopMargin ({stop:g}); a destination must not "
            "be filled above the load at which relief of an overloaded node ends.",
            "ceilingMargin",
        )
    elif not lines.is_deviation and max(stop, ceiling) > target > 0:
        notes.refuse(
            f"found {max(stop, ceiling):g}, which is more than targetThresholds.{resource.value} "
            f"({target:g}); the target less the margin would be below zero.",
            "stopMargin" if stop > target else "ceilingMargin",
        )
    return stop, ceiling
