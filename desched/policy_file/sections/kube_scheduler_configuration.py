"""What a KubeSchedulerConfiguration says about landings, as far as the forecast knows it.

What the forecast does not know is noted, each at its place. Source: k8s.io/kube-scheduler/config/v1
(types.go, types_pluginargs.go), and in k8s.io/kubernetes/pkg/scheduler apis/config/v1
(default_plugins.go, defaults.go) and framework/runtime (`expandMultiPointPlugins`), at v1.36.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace
from pydantic.alias_generators import to_pascal

from desched.model.cluster import DEFAULT_SCHEDULER, SpreadConstraint
from desched.policy.schedulers import (
    OtherScheduler,
    SchedulerProfile,
    ScoreWeights,
    ScoringStrategy,
)
from desched.policy_keys.notes import Notes
from desched.policy_keys.values import LARGEST_COUNT

MOST_WEIGHT = 1_000

_VERSIONS = tuple(f"kubescheduler.config.k8s.io/{version}" for version in ("v1", "v1beta3"))
_KIND = "KubeSchedulerConfiguration"

_WITHOUT_EFFECT = frozenset(
    {
        *("parallelism", "leaderElection", "clientConnection", "delayCacheUntilActive"),
        *("enableProfiling", "enableContentionProfiling"),
        *("podInitialBackoffSeconds", "podMaxBackoffSeconds"),
    }
)
"""Keys that have no effect on where pods land."""

_FILTERS = (
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"),
    *("NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding"),
    *("VolumeZone", "PodTopologySpread", "InterPodAffinity"),
)
_OTHERS = frozenset(
    {
        *("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder"),
        *("NodeDeclaredFeatures", "DynamicResources", "GangScheduling"),
        *("TopologyPlacementGenerator", "PodGroupPodsCount"),
    }
)
"""Plugins of kube-scheduler whose scores the forecast does not need."""

_SCORES = {to_pascal(name): name for name in ScoreWeights.__struct_fields__}
_PLUGINS = _OTHERS.union(_FILTERS, _SCORES)
_NOT_NOTED = frozenset({"DefaultPreemption", "DynamicResources", "PodTopologySpread"})
"""Plugins whose arguments have no effect on landings, or are noted where they are read."""
_NEUTRAL: Mapping[str, Mapping[str, Sequence[object]]] = {
    "InterPodAffinity": {
        "hardPodAffinityWeight": (None, 1),
        "ignorePreferredTermsOfExistingPods": (False,),
    },
    "NodeAffinity": {"addedAffinity": (None, {})},
    "NodeResourcesFit": {"ignoredResources": ([],), "ignoredResourceGroups": ([],)},
}
"""Arguments of plugins, each with the values that change nothing."""

_NOT_KNOWN = "is not known to the forecast of landings, which is as if it were not there."

S = TypeVar("S")


class _Part(msgspec.Struct, rename="camel", frozen=True):
    """A part of the document; others than the known keys are noted."""


class _Plugin(_Part, frozen=True):
    name: str
    weight: int | None = None


class _PluginSet(_Part, frozen=True):
    enabled: list[_Plugin] = []
    disabled: list[_Plugin] = []


class _PluginConfig(_Part, frozen=True):
    name: str
    args: dict[str, Any] = {}


class _Profile(_Part, frozen=True):
    scheduler_name: str = DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: int | None = None
    plugins: dict[str, _PluginSet] = {}
    plugin_config: list[_PluginConfig] = []


class _Configuration(_Part, frozen=True):
    api_version: str
    kind: str
    profiles: list[_Profile] = []
    extenders: list[dict[str, Any]] = []
    percentage_of_nodes_to_score: int | None = None


class _Resource(_Part, frozen=True):
    name: str
    weight: int = 1


class _Point(_Part, frozen=True):
    utilization: int
    score: int


class _Ratio(_Part, frozen=True):
    shape: list[_Point] = []


class _Strategy(_Part, frozen=True):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: list[_Resource] = []
    requested_to_capacity_ratio: _Ratio = _Ratio()


class _Constraint(_Part, forbid_unknown_fields=True, frozen=True):
    max_skew: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_COUNT)]
    topology_key: Annotated[str, msgspec.Meta(min_length=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_COUNT)] = 1
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: list[str] = []


class _Spread(_Part, frozen=True):
    default_constraints: list[_Constraint] = []
    defaulting_type: Literal["System", "List"] = "System"


def configured_schedulers(
    document: Mapping[str, Any], notes: Notes
) -> Mapping[str, OtherScheduler]:
    """The schedulers of its profiles, by the names that pods give."""
    read = _read(document, _Configuration, notes, _WITHOUT_EFFECT)
    if read is None:
        return {}
    if read.kind != _KIND or read.api_version not in _VERSIONS:
        allowed = " or ".join(_VERSIONS)
        notes.refuse(f'found "{read.api_version}, {read.kind}", allowed is {allowed}, {_KIND}.')
    for number in range(len(read.extenders)):
        notes.warn(_NOT_KNOWN, "extenders", number)
    _note_percentage(read, notes)
    schedulers: dict[str, OtherScheduler] = {}
    for number, profile in enumerate(read.profiles or [_Profile()]):
        at = notes.below("profiles", number)
        if profile.scheduler_name in schedulers:
            at.refuse(f'is the second of "{profile.scheduler_name}".', "schedulerName")
        schedulers[profile.scheduler_name] = _scheduler(profile, at)
    return schedulers


def _scheduler(profile: _Profile, notes: Notes) -> OtherScheduler:
    _note_percentage(profile, notes)
    weights = _weights(profile.plugins, notes.below("plugins"))
    scheduler = OtherScheduler(SchedulerProfile.KUBE_SCHEDULER, weights=weights)
    for number, config in enumerate(profile.plugin_config):
        at = notes.below("pluginConfig", number, "args")
        if config.name == "NodeResourcesFit":
            scheduler = replace(scheduler, strategy=_strategy(config.args, at))
        elif config.name == "PodTopologySpread":
            scheduler = replace(scheduler, default_spread=_default_spread(config.args, at))
        elif config.name == "NodeResourcesBalancedAllocation":
            _note_resources(config.args.get("resources", []), at.below("resources"))
        _note_arguments(config, at)
    return scheduler


def _weights(plugins: Mapping[str, _PluginSet], notes: Notes) -> ScoreWeights:
    defaults = ScoreWeights()
    weights = _enabled("score", plugins, {p: getattr(defaults, n) for p, n in _SCORES.items()})
    filters = _enabled("filter", plugins, dict.fromkeys(_FILTERS, 1))
    if off := [name for name in _FILTERS if name not in filters]:
        notes.warn(f"has no filter {', '.join(off)}, which desched applies all the same.")
    for point, chosen in plugins.items():
        for number, plugin in enumerate(chosen.enabled):
            if plugin.name not in _PLUGINS or (plugin.weight and plugin.name not in _SCORES):
                notes.warn(f"{plugin.name} {_NOT_KNOWN}", point, "enabled", number)
            elif not 0 <= (plugin.weight or 0) <= MOST_WEIGHT:
                text = f"found {plugin.weight}, allowed is a weight from 0 to {MOST_WEIGHT}."
                notes.refuse(text, point, "enabled", number)
    return ScoreWeights(**{name: weights.get(plugin, 0) for plugin, name in _SCORES.items()})


def _enabled(
    point: str, plugins: Mapping[str, _PluginSet], defaults: Mapping[str, int]
) -> Mapping[str, int]:
    """The plugins that count at an extension point, with their weights; without one it is 1."""
    scores = dict(defaults)
    for chosen in (plugins.get("multiPoint", _PluginSet()), plugins.get(point, _PluginSet())):
        disabled = {plugin.name for plugin in chosen.disabled}
        scores = {n: w for n, w in scores.items() if not disabled & {n, "*"}}
        scores |= {plugin.name: plugin.weight or 1 for plugin in chosen.enabled}
    return scores


def _strategy(args: Mapping[str, Any], notes: Notes) -> ScoringStrategy:
    at = notes.below("scoringStrategy")
    read = _read(args.get("scoringStrategy") or {}, _Strategy, at) or _Strategy()
    _note_resources(
        [msgspec.to_builtins(resource) for resource in read.resources], at.below("resources")
    )
    if read.type != "RequestedToCapacityRatio":
        return ScoringStrategy(read.type)
    shape = read.requested_to_capacity_ratio.shape
    rises = bool(shape) and shape[-1].score > shape[0].score
    strategy = ScoringStrategy.MOST_ALLOCATED if rises else ScoringStrategy.LEAST_ALLOCATED
    at.warn(
        f"found {read.type}, which the forecast of landings takes for {strategy.value}.", "type"
    )
    return strategy


def _default_spread(args: Mapping[str, Any], notes: Notes) -> tuple[SpreadConstraint, ...] | None:
    read = _read(args, _Spread, notes)
    if read is None or (read.defaulting_type == "System" and not read.default_constraints):
        return None
    if read.defaulting_type == "System":
        notes.refuse("requires defaultingType: List.", "defaultConstraints")
    return tuple(
        SpreadConstraint(
            default_constraint.topology_key,
            default_constraint.max_skew,
            default_constraint.when_unsatisfiable == "DoNotSchedule",
            None,
            min_domains=default_constraint.min_domains,
            honors_affinity=default_constraint.node_affinity_policy == "Honor",
            honors_taints=default_constraint.node_taints_policy == "Honor",
            match_label_keys=tuple(default_constraint.match_label_keys),
        )
        for default_constraint in read.default_constraints
    )


def _note_percentage(part: _Configuration | _Profile, notes: Notes) -> None:
    if part.percentage_of_nodes_to_score:
        text = "has no effect here: from 100 nodes on the forecast takes the scheduler's own share."
        notes.warn(text, "percentageOfNodesToScore")


def _note_resources(resources: Iterable[Mapping[str, Any]], notes: Notes) -> None:
    weights = {resource.get("name"): resource.get("weight") or 1 for resource in resources}
    if weights and (weights.keys() != {"cpu", "memory"} or len({*weights.values()}) > 1):
        notes.warn("counts in the forecast of landings as CPU and memory with equal weights.")


def _note_arguments(config: _PluginConfig, notes: Notes) -> None:
    """Note the arguments that are given and not known, of those that change something."""
    noted: Collection[str] = {
        "NodeResourcesFit": {"scoringStrategy"},
        "NodeResourcesBalancedAllocation": {"resources"},
        "VolumeBinding": {"bindTimeoutSeconds"},
    }.get(config.name, ())
    neutral = _NEUTRAL.get(config.name, {})
    for key, value in config.args.items():
        skipped = config.name in _NOT_NOTED or key in {"apiVersion", "kind", *noted}
        if not skipped and value not in neutral.get(key, ()):
            notes.warn(f"of {config.name} {_NOT_KNOWN}", key)


def _read(
    value: object, of: type[S], notes: Notes, without_effect: Collection[str] = ()
) -> S | None:
    """The part as it is written, None if it is refused; its unknown keys are noted."""
    try:
        read = msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        notes.refuse(f"is not as in a {_KIND}: {error}.")
        return None
    _note_unknown(value, msgspec.inspect.type_info(of), notes, without_effect)
    return read


def _note_unknown(
    value: Any, kind: msgspec.inspect.Type, notes: Notes, without_effect: Collection[str] = ()
) -> None:
    for key, inner, of in _inside(value, kind):
        if of is not None:
            _note_unknown(inner, of, notes.below(key))
        elif key not in {"apiVersion", "kind", *without_effect}:
            notes.warn(_NOT_KNOWN, key)


def _inside(
    value: Any, kind: msgspec.inspect.Type
) -> Iterator[tuple[str | int, Any, msgspec.inspect.Type | None]]:
    """The parts of a value by their keys, each with its type; None for an unknown key."""
    match kind:
        case msgspec.inspect.StructType(fields=fields):
            types = {field.encode_name: field.type for field in fields}
            yield from ((key, inner, types.get(key)) for key, inner in value.items())
        case msgspec.inspect.DictType(value_type=of):
            yield from ((key, inner, of) for key, inner in value.items())
        case msgspec.inspect.ListType(item_type=of):
            yield from ((number, inner, of) for number, inner in enumerate(value))
        case _:
            yield from ()
