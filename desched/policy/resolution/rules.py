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
from desched.policy.reading.yaml_source import KeyPath

LONGEST_WINDOW_SECONDS = 24 * 3600
"""Nodes younger than the longest window are left alone; a day of that is enough."""


class _Margins(NamedTuple):
    stop: float
    ceiling: float


def resource_rules(args: LoadAwareArgs, path: KeyPath, notes: Notes) -> tuple[ResourceRule, ...]:
    """The rules in the order of relief; what is wrong with them is noted."""
    rules = rules_between(args, path, notes)
    _warn_of_idle_windows(args, {rule.resource for rule in rules}, path, notes)
    if any(rule.resource is Resource.PODS for rule in rules):
        notes.warn(
            (*path, "targetThresholds", "pods"),
            "is read as a percentage of the node's allocatable pods, not as a number of pods.",
        )
    return rules


def rules_between(args: LoadAwareArgs, path: KeyPath, notes: Notes) -> tuple[ResourceRule, ...]:
    """A rule for each resource that has a low threshold and a target."""
    low = _percentages(args.thresholds, (*path, "thresholds"), notes)
    high = _percentages(args.target_thresholds, (*path, "targetThresholds"), notes)
    _check_same_resources(args, path, notes)
    rules = []
    for resource in Resource:
        if resource in low and resource in high:
            _check_order(args, low, high, resource, path, notes)
            margins = _margins(args, high[resource], resource, path, notes)
            rules.append(
                ResourceRule(
                    resource=resource,
                    low_ratio=low[resource] / 100,
                    target_ratio=high[resource] / 100,
                    stop_margin_ratio=margins.stop / 100,
                    ceiling_margin_ratio=margins.ceiling / 100,
                    windows_seconds=_windows(args, resource, path, notes),
                    destination_windows=_destination_windows(args, resource, path, notes),
                )
            )
    return tuple(rules)


def _percentages(
    section: ResourcePercentages, path: KeyPath, notes: Notes
) -> dict[Resource, float]:
    if not section.model_fields_set:
        notes.refuse(path, 'is empty; give at least one resource, such as "cpu: 80".')
    found: dict[Resource, float] = {}
    for resource in Resource:
        value: float | None = getattr(section, resource.value)
        if value is not None:
            found[resource] = value
        elif resource.value in section.model_fields_set:
            notes.refuse((*path, resource.value), "found null, allowed is a number from 0 to 100.")
    return found


def _check_same_resources(args: LoadAwareArgs, path: KeyPath, notes: Notes) -> None:
    low, high = args.thresholds.model_fields_set, args.target_thresholds.model_fields_set
    for key, lacking, other_key, other in (
        ("thresholds", low, "targetThresholds", high),
        ("targetThresholds", high, "thresholds", low),
    ):
        missing = sorted(other - lacking)
        if missing and lacking:
            notes.refuse(
                (*path, key),
                f"has no {' and no '.join(missing)}, but {other_key} has; "
                "both must name the same resources.",
            )


def _check_order(
    args: LoadAwareArgs,
    low: dict[Resource, float],
    high: dict[Resource, float],
    resource: Resource,
    path: KeyPath,
    notes: Notes,
) -> None:
    target_path = (*path, "targetThresholds", resource.value)
    if high[resource] == 0:
        notes.refuse(target_path, "found 0, which makes every node overloaded; raise it.")
    elif not args.use_deviation_thresholds and low[resource] > high[resource]:
        notes.refuse(
            (*path, "thresholds", resource.value),
            f"found {low[resource]:g}, which is above targetThresholds.{resource.value} "
            f"({high[resource]:g}); the low threshold must not be above the target.",
        )


def _margins(
    args: LoadAwareArgs, target: float, resource: Resource, path: KeyPath, notes: Notes
) -> _Margins:
    """Percentage points under the target; defaults shrink so that they fit under a low target."""
    given, defaults = args.ceiling_margin, defaults_of(args.compatibility)
    at_most = target if given is None else given
    stop = args.stop_margin
    if stop is None:
        stop = min(defaults.stop_margin, target / 2, at_most)
    ceiling = max(min(defaults.ceiling_margin, target), stop) if given is None else given
    stop_path, ceiling_path = (*path, "stopMargin"), (*path, "ceilingMargin")
    if stop == 0 < min(target, defaults.stop_margin):
        at = ceiling_path if args.stop_margin is None else stop_path
        notes.refuse(at, "found 0, relief must end under the target; give at least 1.")
    elif ceiling < stop:
        notes.refuse(
            ceiling_path,
            f"found {ceiling:g}, which is less than stopMargin ({stop:g}); a destination must not "
            "be filled above the line to which an overloaded node is relieved.",
        )
    elif not args.use_deviation_thresholds and max(stop, ceiling) > target > 0:
        at = stop_path if stop > target else ceiling_path
        notes.refuse(
            at,
            f"found {max(stop, ceiling):g}, which is more than targetThresholds.{resource.value} "
            f"({target:g}); the line would lie below zero.",
        )
    return _Margins(stop, ceiling)


def _windows(
    args: LoadAwareArgs, resource: Resource, path: KeyPath, notes: Notes
) -> tuple[int, ...]:
    if resource is Resource.PODS:
        return ()
    given: tuple[int, ...] | None = getattr(args.windows, resource.value, None)
    at = (*path, "windows", resource.value) if given else (*path, "duration")
    if given is None:
        given = (DEFAULT_WINDOW_SECONDS if args.duration is None else args.duration,)
    for seconds in given:
        if not 0 < seconds <= LONGEST_WINDOW_SECONDS:
            notes.refuse(
                at,
                f'found a window of "{duration_text(seconds)}", allowed is more than 0 and at '
                f'most "{duration_text(LONGEST_WINDOW_SECONDS)}".',
            )
    return tuple(sorted(set(given)))


def _destination_windows(
    args: LoadAwareArgs, resource: Resource, path: KeyPath, notes: Notes
) -> tuple[DestinationWindow, ...]:
    given: tuple[DestinationWindowSection, ...] | None = getattr(
        args.destination_windows, resource.value, None
    )
    for index, section in enumerate(given or ()):
        if not 0 < section.window <= LONGEST_WINDOW_SECONDS:
            notes.refuse(
                (*path, "destinationWindows", resource.value, index, "window"),
                f'found a window of "{duration_text(section.window)}", allowed is more than 0 and '
                f'at most "{duration_text(LONGEST_WINDOW_SECONDS)}".',
            )
    return tuple(DestinationWindow(s.window, _quantile(s.statistic)) for s in given or ())


def _quantile(statistic: str) -> float | None:
    """`avg` is no quantile, `max` is the last and `p95` that below which 95 % lie."""
    if statistic == "avg":
        return None
    return 1.0 if statistic == "max" else int(statistic.removeprefix("p")) / 100


def _warn_of_idle_windows(
    args: LoadAwareArgs, watched: Collection[Resource], path: KeyPath, notes: Notes
) -> None:
    for key, section in (
        ("windows", args.windows),
        ("destinationWindows", args.destination_windows),
    ):
        for resource in (Resource.CPU, Resource.MEMORY):
            if getattr(section, resource.value, None) and resource not in watched:
                notes.warn(
                    (*path, key, resource.value),
                    f"has no effect, because targetThresholds has no {resource.value}.",
                )
