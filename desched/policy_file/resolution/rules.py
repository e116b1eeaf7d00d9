"""When each resource makes a node overloaded: thresholds, margins and windows of LoadAware."""

from desched.model.resources import Resource
from desched.policy.compatibility import GpuPods, defaults_of
from desched.policy.durations import duration_text
from desched.policy.policy import DestinationWindow, MetricsType, ResourceRule
from desched.policy_file.document.load_aware import DEFAULT_WINDOW_SECONDS, LoadAwareArgs
from desched.policy_file.document.thresholds import ResourcePercentages
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.metrics_source import averaged_seconds

LONGEST_WINDOW_SECONDS = 24 * 3600
"""Nodes younger than the longest window are left alone; a day of that is enough."""

LEAST_USUAL_TARGET = 10
"""Percent; under this load nearly no node runs."""


def resource_rules(args: LoadAwareArgs, notes: Notes) -> tuple[ResourceRule, ...]:
    """The rules in the order of relief; what is wrong with them is noted."""
    rules = rules_between(args, notes)
    watched = {rule.resource.value for rule in rules}
    windows = {"windows": args.windows, "destinationWindows": args.destination_windows}
    for key, section in windows.items():
        for name, given in dict(section or ()).items():
            if given and name not in watched:
                text = f"has no effect, because targetThresholds has no {name}."
                notes.warn(text, key, name)
    if Resource.GPU in watched:
        _check_gpu(args, watched, notes)
    if Resource.PODS in watched:
        text = "is read as a percentage of the node's allocatable pods, not as a number of pods."
        notes.warn(text, "targetThresholds", "pods")
    return rules


HIGHEST_PERCENT = 100


def _check_gpu(args: LoadAwareArgs, watched: set[str], notes: Notes) -> None:
    """Note why `gpu` would move nothing, or move it to nodes without other room."""
    if not watched & {Resource.CPU, Resource.MEMORY}:
        text = "has gpu alone; add cpu or memory, of which a destination must have room as well."
        notes.refuse(text, "targetThresholds")
    text = ""
    if args.metrics.type not in {None, MetricsType.PROMETHEUS}:
        text = "relieves no node: only Prometheus has what pods use of GPUs."
    elif (args.gpu_pods or defaults_of(args.compatibility).gpu_pods) is not GpuPods.ALLOW:
        text = (
            'relieves nodes only of pods with desched.io/evict: "true"; set gpuPods: Allow, so '
            "that all pods with a GPU may move."
        )
    if text:
        notes.warn(text, "targetThresholds", "gpu")


def rules_between(args: LoadAwareArgs, notes: Notes) -> tuple[ResourceRule, ...]:
    """A rule for each resource that has a low threshold and a target."""
    low = _percentages("thresholds", args.thresholds, args.target_thresholds, notes)
    targets = _percentages("targetThresholds", args.target_thresholds, args.thresholds, notes)
    return tuple(
        _rule(args, resource, low[resource], targets[resource], notes)
        for resource in Resource
        if resource in low and resource in targets
    )


def _rule(
    args: LoadAwareArgs, resource: Resource, low: float, target: float, notes: Notes
) -> ResourceRule:
    if target == 0:
        text = "found 0, which makes every node overloaded; raise it."
        notes.refuse(text, "targetThresholds", resource.value)
    elif not args.use_deviation_thresholds and low > target:
        notes.refuse(
            f"found {low:g}, which is above targetThresholds.{resource.value} ({target:g}); the "
            "low threshold must not be above the target.",
            "thresholds",
            resource.value,
        )
    elif not args.use_deviation_thresholds and target < LEAST_USUAL_TARGET:
        text = f"is {target:g} percent, so that nearly every node is overloaded."
        notes.warn(text, "targetThresholds", resource.value)
    stop_margin, ceiling_margin = _margins(args, resource, target, notes)
    is_absolute = args.stop_margin is not None and not args.use_deviation_thresholds
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
        windows_seconds=_windows(args, resource, notes),
        destination_windows=_destination_windows(args, resource, notes),
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
    found: dict[Resource, float | None] = {r: getattr(section, r.value) for r in Resource}
    for name in given:
        if getattr(section, name) is None:
            notes.refuse("found null, allowed is a number from 0 to 100.", key, name)
    return {resource: value for resource, value in found.items() if value is not None}


def _margins(
    args: LoadAwareArgs, resource: Resource, target: float, notes: Notes
) -> tuple[float, float]:
    """The stop margin and the ceiling margin; defaults shrink so that they fit a low target."""
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
    return stop, ceiling


def _windows(args: LoadAwareArgs, resource: Resource, notes: Notes) -> tuple[int, ...]:
    if resource is Resource.PODS:
        return ()
    given: tuple[int, ...] | None = getattr(args.windows, resource.value, None)
    at = notes.below("windows", resource.value) if given else notes.below("duration")
    if given is None:
        usual = DEFAULT_WINDOW_SECONDS + averaged_seconds(args.metrics)
        given = (usual if args.duration is None else args.duration,)
    for seconds in given:
        _check_window(seconds, at)
    return tuple(sorted(set(given)))


def _destination_windows(
    args: LoadAwareArgs, resource: Resource, notes: Notes
) -> tuple[DestinationWindow, ...]:
    given = getattr(args.destination_windows, resource.value, None) or ()
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
