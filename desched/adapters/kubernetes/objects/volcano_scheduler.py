"""The configuration of a Volcano scheduler: which plugins are on, and with which weights.

What this does not understand makes all of it unclear, for a wrong score is worse than none.

Sources, at volcano-sh/volcano@ed72c7c8: pkg/scheduler/util.go:38-51 (the compiled configuration,
which replaces a missing file), pkg/scheduler/conf/scheduler_conf.go (`PluginOption`),
pkg/scheduler/framework/arguments.go (`GetInt` takes integers, and ignores all else),
pkg/scheduler/plugins/nodeorder/nodeorder.go:142-151,
pkg/scheduler/plugins/binpack/binpack.go:112-155,
pkg/scheduler/framework/session_plugins.go:1012-1065 (each plugin of each tier adds its score),
pkg/scheduler/plugins/predicates/predicates.go:129 (what it filters by).
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import yaml

from desched.adapters.kubernetes.client.access import GET_VOLCANO_CONFIGURATION
from desched.adapters.kubernetes.client.paged_reads import Reading, why_refused
from desched.api_objects.decoding import UNDECODABLE
from desched.api_objects.metadata import Strings, Wire
from desched.model.text import shortened
from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.policy.schedulers import VolcanoWeights

KEY = "volcano-scheduler.conf"
"""The file in the ConfigMap, as in Volcano's chart."""

LARGEST_CHARACTERS = 64 * 2**10
HIGHEST_WEIGHT = 10_000

_NODEORDER, _BINPACK, _PREDICATES = "nodeorder", "binpack", "predicates"
_BINPACK_RESOURCES = "binpack.resources"
_WITHOUT_SCORES = frozenset(
    {
        "capacity",
        "cdp",
        "conformance",
        "drf",
        "gang",
        "overcommit",
        "pdb",
        _PREDICATES,
        "priority",
        "proportion",
        "rescheduling",
        "reservation",
        "resourcequota",
        "sla",
    }
)
"""Plugins that give nodes no points; of those that are not known, it is not known."""

_CACHES = "predicate.CacheEnable"
_PROPORTIONAL = "predicate.ProportionalEnable"

_Plugin = Mapping[str, Any]


class _ConfigMap(Wire):
    data: Strings = None


_DECODER = msgspec.json.Decoder(_ConfigMap)


def read_configuration(read: Reading, place: str) -> VolcanoConfiguration:
    """The configuration in a ConfigMap, by its namespace and name."""
    namespace, _, name = place.partition("/")
    access = GET_VOLCANO_CONFIGURATION
    answer = read.answer(access, name, namespace)
    if answer.status == HTTPStatus.NOT_FOUND:
        return VolcanoConfiguration(unclear="there is none")
    if answer.status != HTTPStatus.OK:
        return VolcanoConfiguration(unclear=shortened(why_refused(answer, access, namespace)))
    try:
        data = _DECODER.decode(answer.body).data or {}
    except UNDECODABLE as error:
        return VolcanoConfiguration(unclear=shortened(f"it cannot be read: {error}"))
    if KEY not in data:
        return VolcanoConfiguration(unclear=f"it has no {KEY}")
    return configuration_of(data[KEY])


def configuration_of(text: str) -> VolcanoConfiguration:
    """What the text of a volcano-scheduler.conf says."""
    try:
        return _read(text)
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        problem = " ".join(str(error).split())
        return VolcanoConfiguration(unclear=shortened(f"{KEY} cannot be read: {problem}"))


def _read(text: str) -> VolcanoConfiguration:
    if len(text) > LARGEST_CHARACTERS:
        raise ValueError(f"it has more than {LARGEST_CHARACTERS} characters")
    plugins: dict[str, _Plugin] = {}
    for plugin in _plugins(yaml.safe_load(text)):
        name = plugin.get("name")
        if not isinstance(name, str) or name in plugins:
            raise ValueError(f"a plugin is twice there, or has no name: {name}")
        plugins[name] = plugin
    _require_filters(plugins.get(_PREDICATES))
    scoring = {
        name: weight for name, weight in plugins.items() if _is_on(weight, "enableNodeOrder")
    }
    resources = _arguments(scoring.get(_BINPACK, {})).get(_BINPACK_RESOURCES)
    return VolcanoConfiguration(
        dict(_weights(scoring)),
        packs_others=bool(resources),
        further=tuple(sorted(scoring.keys() - _WITHOUT_SCORES - {_NODEORDER, _BINPACK})),
    )


def _plugins(document: object) -> Iterator[_Plugin]:
    """The plugins of all tiers."""
    tiers = _mapping(document, "the file").get("tiers")
    for tier in _list(tiers, "tiers"):
        for plugin in _list(_mapping(tier, "a tier").get("plugins"), "plugins"):
            yield _mapping(plugin, "a plugin")


def _weights(scoring: Mapping[str, _Plugin]) -> Iterator[tuple[str, int]]:
    """Each argument with the weight that is in force."""
    for argument, usual in VolcanoWeights().arguments.items():
        plugin = scoring.get(_BINPACK if argument.startswith(_BINPACK) else _NODEORDER)
        if plugin is None:
            yield argument, 0
            continue
        weight = _arguments(plugin).get(argument, usual)
        if type(weight) is not int or not 0 <= weight <= HIGHEST_WEIGHT:
            raise ValueError(f"{argument} is no integer from 0 to {HIGHEST_WEIGHT}")
        yield argument, weight


def _require_filters(predicates: _Plugin | None) -> None:
    """Raise an error unless pods go only to nodes where kube-scheduler would accept them."""
    if predicates is None or not _is_on(predicates, "enablePredicate"):
        raise ValueError("the plugin predicates is off, so pods go to nodes where they do not fit")
    for key, value in _arguments(predicates).items():
        is_switch = key.startswith("predicate.") and key.endswith("Enable")
        if is_switch and key != _CACHES and value is not (key != _PROPORTIONAL):
            raise ValueError(f"{key} is {value}: what it filters by is not known")


def _is_on(plugin: _Plugin, switch: str) -> bool:
    """Whether a function of the plugin is enabled, as all are by default."""
    value = plugin.get(switch)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{switch} is no boolean")
    return value is not False


def _arguments(plugin: _Plugin) -> Mapping[str, Any]:
    arguments = _mapping(plugin.get("arguments") or {}, "arguments")
    if not all(isinstance(key, str) for key in arguments):
        raise TypeError("an argument has no name")
    return arguments


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{what} is no mapping")
    return value


def _list(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, list) or not value:
        raise TypeError(f"{what} is no list with entries")
    return value
