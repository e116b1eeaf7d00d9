"""In what two policies differ: their values with all defaults, key by key."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from desched.model.cluster import SpreadConstraint
from desched.model.text import on_one_line
from desched.planning.plugins import Plugin
from desched.plugins.out_of_tree import OutOfTree, others_in
from desched.policy.acting_window import ActingWindow
from desched.policy.cron import CronField
from desched.policy.durations import LONGEST_SECONDS, duration_text
from desched.policy.policy import (
    DestinationWindow,
    MetricsSource,
    Policy,
    PriorityThreshold,
    Protections,
    ResourceRule,
)
from desched.policy.schedulers import OtherScheduler, SchedulerProfile, SchedulerRules
from desched.policy.share import Share
from desched.policy_file.sections.default_evictor import DefaultEvictorArgs
from desched.policy_file.sections.load_aware import LoadAwareArgs
from desched.policy_file.sections.root import DeschedulerPolicy
from desched.policy_file.upstream_plugins import DEFAULT_EVICTOR, OF_HOUSE
from desched.policy_keys.label_syntax import selector_text
from desched.policy_keys.section import Section, attribute, keys, names, sections_below

NONE = "none"
UNLIMITED = "no limit"
OUT_OF_TREE_PLUGINS = "outOfTreePlugins"
_OTHER_PLUGINS: Mapping[str, type[Section]] = {
    DEFAULT_EVICTOR: DefaultEvictorArgs,
    **{name: config.args_section() for name, config in OF_HOUSE.items()},
}
_Rows = Iterator[tuple[tuple[str, ...], str]]
_SENTENCE = re.compile(r"(.+?\.)(?= [A-Z`]|$)")


class Difference(msgspec.Struct, frozen=True):
    """A key whose value differs, with both values as people read them.

    `key` is that of LoadAware, or begins with the name of its plugin. `meaning` is what the policy
    reference begins with about it.
    """

    key: str
    before: str
    after: str
    meaning: str

    @property
    def line(self) -> str:
        """The difference on one line."""
        return on_one_line(f"{self.key}: {self.before} → {self.after}")


def policy_differences(before: Policy, after: Policy) -> tuple[Difference, ...]:
    """In what the second policy differs from the first, in the order of the policy reference."""
    old, new = dict(_rows(before)), dict(_rows(after))
    return tuple(
        Difference(".".join(path), old.get(path, NONE), new.get(path, NONE), _meaning(path))
        for path in dict.fromkeys((*old, *new))
        if old.get(path, NONE) != new.get(path, NONE)
    )


def _rows(policy: Policy) -> _Rows:
    yield from _thresholds(policy.rules, ())
    yield ("useDeviationThresholds",), _flag(policy.deviation)
    yield ("numberOfNodes",), str(policy.min_underloaded_nodes)
    yield ("nodeSelector",), selector_text(policy.node_selector) or "all nodes"
    yield from _protections(policy.protections)
    yield ("balanceScope",), policy.balance_scope or NONE
    yield (
        (DEFAULT_EVICTOR, "nodeSelector"),
        selector_text(policy.destination_selector) or "all nodes",
    )
    yield from _metrics(policy.metrics)
    yield from _windows(policy.rules)
    yield ("evictionPrice",), duration_text(round(60 * policy.eviction_price_minutes))
    yield from _pools(policy)
    floor = (
        f"{_percent(policy.deviation_floor_ratio)}, {_percent(policy.dead_band_ratio)} from mean"
    )
    yield ("deviationFloor",), floor
    yield from _as_in_section(("evictionLimits",), policy.limits)
    yield ("maintenanceWindows",), _acting(policy.maintenance_windows, "at any time")
    yield ("blackoutWindows",), _acting(policy.blackout_windows, NONE)
    yield from _as_in_section(("followUp",), policy.follow_up)
    yield ("maxLandingRisk",), f"{policy.max_landing_risk:g}"
    yield from _scheduler(policy.scheduler)
    yield ("steering",), policy.steering.mode.value
    yield ("relieveStayingExcess",), _flag(policy.relieves_staying_excess)
    acknowledged = ", ".join(policy.acknowledged_deschedulers)
    yield ("acknowledgedDeschedulers",), acknowledged or NONE
    yield ("steeringMaxNodes",), _limit(policy.steering.most_nodes, "the nodes")
    for plugin in policy.plugins:
        yield from settings(plugin)
    yield (OUT_OF_TREE_PLUGINS,), ", ".join(map(_out_of_tree, others_in(policy))) or NONE


def settings(plugin: Plugin) -> Iterator[tuple[tuple[str, ...], str]]:
    """The settings of a plugin by the keys that set them, as people read them."""
    for key, name in names(plugin.keys).items() if plugin.keys else ():
        value = getattr(plugin, name)
        if isinstance(value, StrEnum):
            yield (key,), value.value
    yield from plugin.further_settings()


def _out_of_tree(plugin: OutOfTree) -> str:
    """The plugin and its args."""
    return f"{plugin.name} {msgspec.json.encode(plugin.plugin, order='deterministic').decode()}"


def _scheduler(rules: SchedulerRules) -> _Rows:
    yield ("scheduler", "strategy"), rules.strategy.value
    yield from _as_in_section(("scheduler", "weights"), rules.weights)
    yield ("scheduler", "defaultConstraints"), _spread(rules.default_spread)
    for name, other in rules.others.items():
        yield from _other_scheduler(("scheduler", "others", name), other)


def _spread(constraints: Sequence[SpreadConstraint] | None) -> str:
    if constraints is None:
        return "those of the system"
    strict = {True: "DoNotSchedule", False: "ScheduleAnyway"}
    return ", ".join(f"{c.topology_key} {c.max_skew} {strict[c.hard]}" for c in constraints) or NONE


def _other_scheduler(at: tuple[str, ...], other: OtherScheduler) -> _Rows:
    yield (*at, "profile"), other.profile.value
    if other.profile is SchedulerProfile.KUBE_SCHEDULER:
        yield (*at, "strategy"), other.strategy.value
        yield from _as_in_section((*at, "weights"), other.weights)
        yield (*at, "defaultConstraints"), _spread(other.default_spread)
    if other.profile is SchedulerProfile.VOLCANO:
        for argument, weight in other.volcano.arguments.items():
            by_config_map = other.config_map and argument not in other.written
            text = "that of configMap" if by_config_map else str(weight)
            yield (*at, "arguments", argument), text
        yield (*at, "furtherPoints"), str(other.further_points)
        yield (*at, "configMap"), other.config_map or NONE
        yield (*at, "networkTopologyAware"), str(other.network_topology_aware).lower()


def _thresholds(rules: Sequence[ResourceRule], at: tuple[str, ...]) -> _Rows:
    for rule in rules:
        name = rule.resource.value
        yield (*at, "thresholds", name), _percent(rule.low_ratio)
        yield (*at, "targetThresholds", name), _percent(rule.target_ratio)
        yield (*at, "stopMargin", name), f"{100 * rule.stop_margin_ratio:g} points"
        yield (*at, "ceilingMargin", name), f"{100 * rule.ceiling_margin_ratio:g} points"


def _windows(rules: Sequence[ResourceRule]) -> _Rows:
    for rule in rules:
        name = rule.resource.value
        yield ("windows", name), ", ".join(map(duration_text, rule.windows_seconds)) or NONE
        further = ", ".join(map(_destination_window, rule.destination_windows))
        yield ("destinationWindows", name), further or NONE


def _destination_window(window: DestinationWindow) -> str:
    if window.quantile is None:
        statistic = "avg"
    else:
        statistic = "max" if window.quantile == 1 else f"p{100 * window.quantile:g}"
    return f"{statistic} of {duration_text(window.window_seconds)}"


def _protections(protections: Protections) -> _Rows:
    yield ("evictLocalStoragePods",), _flag(not protections.local_storage)
    yield ("evictSystemCriticalPods",), _flag(not protections.system_critical)
    claims = "claims of " + ", ".join(protections.protected_storage_classes or ("all classes",))
    yield ("ignorePvcPods",), claims if protections.pvc_pods else _flag(value=False)
    yield ("labelSelector",), selector_text(protections.labels) or "all pods"
    yield ("priorityThreshold",), _priority(protections.priority_threshold)
    yield ("evictableNamespaces", "include"), ", ".join(protections.included_namespaces) or "all"
    yield ("evictableNamespaces", "exclude"), ", ".join(protections.excluded_namespaces) or NONE
    yield ("evictSingleReplica",), _flag(not protections.single_replicas)
    yield ("maxGracePeriod",), _unbounded(protections.max_grace_period_seconds)
    yield ("understoodOwnerKinds",), ", ".join(protections.understood_owner_kinds) or NONE
    of = DEFAULT_EVICTOR
    yield (of, "ignorePodsWithoutPDB"), _flag(protections.pods_without_budget)
    listed = (of, "podProtections", "extraEnabled", "PodsWithResourceClaims")
    yield listed, _flag(protections.resource_claims)
    yield (
        (of, "namespaceLabelSelector"),
        selector_text(protections.namespace_labels) or "all namespaces",
    )
    yield (of, "minReplicas"), str(protections.min_replicas)
    yield (of, "minPodAge"), duration_text(protections.min_pod_age_seconds)
    mandatory = protections.prefer_no_eviction_is_mandatory
    yield (of, "noEvictionPolicy"), "Mandatory" if mandatory else "Preferred"


def _metrics(metrics: MetricsSource) -> _Rows:
    yield ("metrics", "type"), metrics.type.value
    yield ("metrics", "address"), metrics.address or NONE
    yield ("metrics", "stack"), metrics.stack or NONE
    yield ("metrics", "namespace"), metrics.namespace or NONE
    yield ("metrics", "tenant"), metrics.tenant or NONE
    if metrics.averaged_seconds:
        yield ("metrics", "averagedOver"), duration_text(metrics.averaged_seconds)
    for label, value in metrics.matchers.items():
        yield ("metrics", "matchers", label), value
    for key, given in (("queries", metrics.queries), ("sources", metrics.sources)):
        for spelt, name in names(_section(("metrics", key))).items():
            if name in given:
                yield ("metrics", key, spelt), given[name]


def _pools(policy: Policy) -> _Rows:
    yield ("nodePools",), ", ".join(_pool_names(policy)) or NONE
    for pool in policy.pools:
        yield ("nodePools", pool.name, "nodeSelector"), selector_text(pool.selector) or "all nodes"
        yield from _thresholds(pool.rules, ("nodePools", pool.name))


def _pool_names(policy: Policy) -> Iterator[str]:
    yield from (pool.name for pool in policy.pools)
    if policy.pools and not policy.only_pools:
        yield "all others"


_OF: Mapping[str, str] = {
    "total": "the nodes",
    "namespace": "its pods",
    "workload": "its replicas",
    "workloadHourly": "its replicas",
}
"""What limits that may be a share are a share of."""


def _as_in_section(at: tuple[str, ...], values: msgspec.Struct, above: str = "") -> _Rows:
    """The rows of a section whose values have the names of its keys."""
    section = _section(at)
    for key, name in names(section).items():
        path = (*at, key)
        if _section(path) is not section:
            yield from _as_in_section(path, values, f"{above}{name}_")
            continue
        name_of_value = attribute(type(values), f"{above}{name}")
        value = getattr(values, name_of_value)
        if name_of_value.endswith("_seconds"):
            yield path, duration_text(value)
        elif isinstance(value, bool):
            yield path, _flag(value)
        elif isinstance(value, str):
            yield path, value or NONE
        else:
            yield path, _limit(value, _OF.get(key, ""))


def _percent(ratio: float) -> str:
    return f"{100 * ratio:g} %"


def _flag(value: bool) -> str:  # noqa: FBT001  (it is the value itself)
    return "true" if value else "false"


def _unbounded(seconds: int) -> str:
    return UNLIMITED if seconds == LONGEST_SECONDS else duration_text(seconds)


def _limit(limit: int | Share | None, whole: str = "") -> str:
    if limit is None:
        return UNLIMITED
    if isinstance(limit, int):
        return str(limit)
    least = f", at least {limit.at_least}" if limit.at_least > 1 else ""
    most = "" if limit.at_most is None else f", at most {limit.at_most}"
    rounded = ", rounded up" if limit.rounded_up else ""
    return f"{_percent(limit.ratio)} of {whole}{least}{most}{rounded}"


def _priority(threshold: PriorityThreshold) -> str:
    if threshold.class_name is not None:
        return f"that of PriorityClass {threshold.class_name}"
    return NONE if threshold.value is None else str(threshold.value)


def _acting(windows: Sequence[ActingWindow], without: str) -> str:
    return "; ".join(map(_acting_window, windows)) or without


def _acting_window(window: ActingWindow) -> str:
    fields = (getattr(window.start, name) for name in window.start.__struct_fields__)
    start = " ".join(map(_cron_field, fields))
    return f"{start} for {duration_text(window.duration_seconds)} ({window.zone})"


def _cron_field(field: CronField) -> str:
    return "*" if field.free else ",".join(map(str, sorted(field.allowed)))


def _section(path: Sequence[str]) -> type[Section]:
    """The section of the document to which a path leads, the last one that it names."""
    return _place(path)[0]


def _meaning(path: Sequence[str]) -> str:
    """What the reference begins with on the last key of the path, and on the one above it."""
    return " ".join(map(_first_sentence, _place(path)[1][-2:]))


def _first_sentence(text: str) -> str:
    text = " ".join(text.split())
    sentence = _SENTENCE.match(text)
    return sentence[1] if sentence else text


def _place(path: Sequence[str]) -> tuple[type[Section], list[str]]:
    """The section to which a path leads, and the descriptions of the keys on the way."""
    section: type[Section] = LoadAwareArgs
    if path[0] in _OTHER_PLUGINS:
        section, path = _OTHER_PLUGINS[path[0]], path[1:]
    elif path[0] == OUT_OF_TREE_PLUGINS:
        section = DeschedulerPolicy
    descriptions: list[str] = []
    for part in path:
        field = keys(section).get(part)
        if field is not None:  # else it is the name of a pool or of a label
            descriptions.append(field.description or "")
            section = next(sections_below(field.annotation), section)
    return section, descriptions
