"""When each resource makes a node overloaded: thresholds, margins and windows of LoadAware."""

from collections.abc import Collection
from typing import NamedTuple

from desched.model.resources import Resource
from desched.policy.compatibility import defaults_of
from desched.policy.document.load_aware import DEFAULT_WINDOW_SECONDS, LoadAwareArgs
from desched.policy.document.thresholds import DestinationWindowSection, ResourcePercentages
from desched.policy.durations import duration_text
from desched.policy.policy import DestinationWindow, ResourceRule
from desched.policy.reading.problems import Notes

LONGEST_WINDOW_SECONDS = 24 * 3600
"""Nodes younger than the longest window are left alone; a day of that is enough."""


class _Margins(NamedTuple):
    stop: float
    ceiling: float


def resource_rules(args: LoadAwareArgs, notes: Notes) -> tuple[ResourceRule, ...]:
    """The rules in the order of relief; what is wrong with them is noted."""
    rules = rules_between(args, notes)
    _warn_of_idle_windows(args, {rule.resource for rule in rules}, notes)
    if any(rule.resource is Resource.PODS for rule in rules):
        at = notes.below("targetThresholds", "pods")
        at.warn("is read as a percentage of the node's allocatable pods, not as a number of pods.")
    return rules


def rules_between(args: LoadAwareArgs, notes: Notes) -> tuple[ResourceRule, ...]:
    """A rule for each resource that has a low threshold and a target."""
    low = _percentages(args.thresholds, notes.below("thresholds"))
    targets = _percentages(args.target_thresholds, notes.below("targetThresholds"))
    _check_same_resources(args, notes)
    return tuple(
        _rule(args, resource, low[resource], targets[resource], notes)
        for resource in Resource
        if resource in low and resource in targets
    )


def _rule(
    args: LoadAwareArgs, resource: Resource, low: float, target: float, notes: Notes
) -> ResourceRule:
    if target == 0:
        at = notes.below("targetThresholds", resource.value)
        at.refuse("found 0, which makes every node overloaded; raise it.")
    elif not args.use_deviation_thresholds and low > target:
        at = notes.below("thresholds", resource.value)
        at.refuse(
            f"found {low:g}, which is above targetThresholds.{resource.value} ({target:g}); the "
            "low threshold must not be above the target."
        )
    margins = _margins(args, resource, target, notes)
    return ResourceRule(
        resource=resource,
        low_ratio=low / 100,
        target_ratio=target / 100,
        stop_margin_ratio=margins.stop / 100,
        ceiling_margin_ratio=margins.ceiling / 100,
        windows_seconds=_windows(args, resource, notes),
        destination_windows=_destination_windows(args, resource, notes),
    )


def _percentages(section: ResourcePercentages, notes: Notes) -> dict[Resource, float]:
    given = section.model_fields_set
    if not given:
        notes.refuse('is empty; give at least one resource, such as "cpu: 80".')
    found: dict[Resource, float | None] = {r: getattr(section, r.value) for r in Resource}
    for resource, value in found.items():
        if value is None and resource.value in given:
            notes.refuse("found null, allowed is a number from 0 to 100.", resource.value)
    return {resource: value for resource, value in found.items() if value is not None}


def _check_same_resources(args: LoadAwareArgs, notes: Notes) -> None:
    low, high = args.thresholds.model_fields_set, args.target_thresholds.model_fields_set
    for key, lacking, other_key, other in (
        ("thresholds", low, "targetThresholds", high),
        ("targetThresholds", high, "thresholds", low),
    ):
        missing = sorted(other - lacking)
        if missing and lacking:
            notes.refuse(
                f"has no {' and no '.join(missing)}, but {other_key} has; "
                "both must name the same resources.",
                key,
            )


def _margins(args: LoadAwareArgs, resource: Resource, target: float, notes: Notes) -> _Margins:
    """Percentage points under the target; defaults shrink so that they fit under a low target."""
    given, defaults = args.ceiling_margin, defaults_of(args.compatibility)
    at_most = target if given is None else given
    stop = args.stop_margin
    if stop is None:
        stop = min(defaults.stop_margin, target / 2, at_most)
    ceiling = max(min(defaults.ceiling_margin, target), stop) if given is None else given
    if stop == 0 < min(target, defaults.stop_margin):
        notes.refuse(
            "found 0, relief must end under the target; give at least 1.",
            "ceilingMargin" if args.stop_margin is None else "stopMargin",
        )
    elif ceiling < stop:
        notes.refuse(
            f"found {ceiling:g}, which is less than stopMargin ({stop:g}); a destination must not "
            "be filled above the load at which relief of an overloaded node ends.",
            "ceilingMargin",
        )
    elif not args.use_deviation_thresholds and max(stop, ceiling) > target > 0:
        notes.refuse(
            f"found {max(stop, ceiling):g}, which is more than targetThresholds.{resource.value} "
            f"({target:g}); the target less the margin would be below zero.",
            "stopMargin" if stop > target else "ceilingMargin",
        )
    return _Margins(stop, ceiling)


def _windows(args: LoadAwareArgs, resource: Resource, notes: Notes) -> tuple[int, ...]:
    if resource is Resource.PODS:
        return ()
    given: tuple[int, ...] | None = getattr(args.windows, resource.value, None)
    at = notes.below("windows", resource.value) if given else notes.below("duration")
    if given is None:
        given = (DEFAULT_WINDOW_SECONDS if args.duration is None else args.duration,)
    for seconds in given:
        _check_window(seconds, at)
    return tuple(sorted(set(given)))


def _destination_windows(
    args: LoadAwareArgs, resource: Resource, notes: Notes
) -> tuple[DestinationWindow, ...]:
    given: tuple[DestinationWindowSection, ...] = (
        getattr(args.destination_windows, resource.value, None) or ()
    )
    for index, section in enumerate(given):
        at = notes.below("destinationWindows", resource.value, index, "window")
        _check_window(section.window, at)
    return tuple(DestinationWindow(s.window, _quantile(s.statistic)) for s in given)


def _check_window(seconds: int, notes: Notes) -> None:
    if not 0 < seconds <= LONGEST_WINDOW_SECONDS:
        notes.refuse(
            f'found a window of "{duration_text(seconds)}", allowed is more than 0 and at most '
            f'"{duration_text(LONGEST_WINDOW_SECONDS)}".'
        )


def _quantile(statistic: str) -> float | None:
    """`avg` is no quantile, `max` is the last and `p95` that below which 95 % lie."""
    if statistic == "avg":
        return None
    return 1.0 if statistic == "max" else int(statistic.removeprefix("p")) / 100


def _warn_of_idle_windows(args: LoadAwareArgs, watched: Collection[Resource], notes: Notes) -> None:
    for key, section in (
        ("windows", args.windows),
        ("destinationWindows", args.destination_windows),
    ):
        for resource in (Resource.CPU, Resource.MEMORY):
            if getattr(section, resource.value, None) and resource not in watched:
                at = notes.below(key, resource.value)
                at.warn(f"has no effect, because targetThresholds has no {resource.value}.")
