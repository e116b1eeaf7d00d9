"""Policies of other deschedulers as policies of desched: what is read how, and what comes of it."""

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from desched.convert.balancing import drop_settings, enabled_at
from desched.convert.draft import HOLD, Draft
from desched.convert.koordinator import convert_koordinator
from desched.convert.load_aware import convert_load_aware
from desched.convert.node_utilization import convert_node_utilization
from desched.convert.notes import ConversionNote, Effect
from desched.convert.original import OriginalSection, Record
from desched.convert.strategies import convert_strategies
from desched.convert.yaml_text import yaml_text
from desched.model.text import on_one_line
from desched.policy_file.loading import validate_policy
from desched.policy_file.reading.envelope import CCE_KEY, find_document
from desched.policy_file.reading.problems import unfilled
from desched.policy_file.sections.root import DeschedulerPolicy
from desched.policy_file.upstream_plugins import LOAD_AWARE
from desched.policy_keys.document import YamlDocument
from desched.policy_keys.findings import InvalidPolicy, KeyPath, Place, Severity
from desched.policy_keys.section import KIND, places_of

_KOORDINATOR_KIND = "DeschedulerConfiguration"
_ARGS_KINDS = {"LowNodeLoadArgs": "LowNodeLoad", "MigrationControllerArgs": "MigrationController"}


class Dialect(StrEnum):
    """Whose policy is converted."""

    KOORDINATOR = "koordinator"
    CCE = "cce"
    V1ALPHA1 = "v1alpha1"
    KUBERNETES_SIGS = "kubernetes-sigs"
    VOLCANO = "volcano"


_PLUGINS = {
    Dialect.KOORDINATOR: "LowNodeLoad",
    Dialect.CCE: LOAD_AWARE,
    Dialect.VOLCANO: LOAD_AWARE,
    Dialect.KUBERNETES_SIGS: "LowNodeUtilization",
}
_CONVERTERS = {
    Dialect.KOORDINATOR: convert_koordinator,
    Dialect.CCE: convert_load_aware,
    Dialect.VOLCANO: convert_load_aware,
    Dialect.KUBERNETES_SIGS: convert_node_utilization,
}


_MISPLACED = "is a key of {}, and had no effect where it is; it may have been meant."

_AROUND_POLICIES = {
    "KubeDescheduler": "OpenShift: convert the ConfigMap `cluster` that its operator writes",
    "HelmRelease": "Flux: convert the ConfigMap that the chart writes",
    "HelmChart": "k3s: convert the ConfigMap that the chart writes",
    "Application": "Argo CD: convert the ConfigMap that it writes",
    "Descheduler": "Deckhouse: convert the ConfigMap that its module writes",
}
"""Objects from which others make the policy, by kind: whose they are, and what to convert."""


class Conversion(NamedTuple):
    """A policy of desched as a value and as YAML, and what its author must know."""

    dialect: Dialect
    document: dict[str, Any]
    text: str
    notes: tuple[ConversionNote, ...]


def convert_policy(text: str, source: str, dialect: Dialect | None = None) -> Conversion:
    """The policy of another descheduler as one of desched; by default it finds out whose it is.

    Nothing may be evicted by the policy that the other descheduler would not evict by its own.
    Where that could not be said in a policy, it evicts nothing, and a note says why.

    Raises:
        InvalidPolicy: it is none that can be converted, or its values are of the wrong type.
    """
    document, base = find_document(text, source, (KIND, _KOORDINATOR_KIND, *_ARGS_KINDS))
    if document.findings:
        raise InvalidPolicy(document.findings)
    value: Any = document.value
    original = value[CCE_KEY] if base else _whole(value)
    record = Record(document, base, () if original is value or base else _AROUND)
    if not isinstance(original, dict):
        raise document.refused(base, "is not a mapping, so there is nothing to convert.")
    for problem in unfilled(value):
        raise document.refused(problem.path, problem.text)
    chosen = dialect or _dialect(original, document, in_wrapper=bool(base))
    root = OriginalSection(record, original)
    draft = Draft()
    if chosen is Dialect.V1ALPHA1:
        convert_strategies(root, draft)
    else:
        _convert_profile(root, draft, chosen)
    if base:
        drop_settings(OriginalSection(msgspec.structs.replace(record, base=()), value))
    for key in ("apiVersion", "kind", "profiles", "strategies"):
        root.value(key)
    _leave_out(root, "is unknown here; it had no effect there, or is a setting.")
    if record.findings:
        raise InvalidPolicy(record.findings)
    return _conversion(chosen, draft, record.notes, source)


_AROUND: KeyPath = ("profiles", 0, "pluginConfig", 0, "args")


def _whole(value: dict[str, Any]) -> dict[str, Any]:
    """A configuration around the args of a single plugin of Koordinator."""
    plugin = _ARGS_KINDS.get(str(value.get("kind")))
    if plugin is None:
        return value
    load = plugin if plugin == _PLUGINS[Dialect.KOORDINATOR] else None
    enabled = {"balance": {"enabled": [{"name": load}]}} if load else {}
    config = [{"name": plugin, "args": value}]
    return {"profiles": [{"pluginConfig": config, "plugins": enabled}]}


def _dialect(original: dict[str, Any], document: YamlDocument, *, in_wrapper: bool) -> Dialect:
    if "strategies" in original:
        return Dialect.V1ALPHA1
    profiles = original.get("profiles")
    plugins = {
        name
        for profile in (profiles if isinstance(profiles, list) else [])
        for name in _plugin_names(profile)
    }
    if LOAD_AWARE in plugins:
        return Dialect.CCE if in_wrapper else Dialect.VOLCANO
    for dialect in (Dialect.KOORDINATOR, Dialect.KUBERNETES_SIGS):
        if _PLUGINS[dialect] in plugins:
            return dialect
    kind = str(original.get("kind"))
    if around := _AROUND_POLICIES.get(kind):
        raise document.refused(("kind",), f"this is a {kind} of {around}.")
    raise document.refused(
        (),
        f"there is nothing to convert: no profile has {', '.join(dict.fromkeys(_PLUGINS.values()))}"
        ", and there are no strategies.",
    )


def _plugin_names(profile: object) -> Iterator[str]:
    configs = profile.get("pluginConfig") if isinstance(profile, dict) else None
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict) and isinstance(config.get("name"), str):
            yield config["name"]


def _convert_profile(root: OriginalSection, draft: Draft, dialect: Dialect) -> None:
    """The first profile that enables the plugin, or else the first that configures it."""
    plugin = _PLUGINS[dialect]
    values = root.value("profiles")
    having = [
        (section, plugin in enabled_at(section.section("plugins"), "balance"))
        for value, section in zip(values or (), root.sections("profiles"), strict=False)
        if plugin in _plugin_names(value)
    ]
    if not having:
        root.refuse("profiles", f"none has the plugin {plugin}, so there is nothing to convert.")
        return
    chosen = next((section for section, enabled in having if enabled), having[0][0])
    for section, _ in having:
        if section is not chosen:
            section.dropped_whole("only one profile is converted; convert this one by itself.")
    draft.name = chosen.text("name") or dialect.value
    _CONVERTERS[dialect](root, chosen, draft)
    for key in ("pluginConfig", "plugins"):
        chosen.value(key)
    _leave_out(chosen, "is unknown here; it had no effect there.")


def _leave_out(section: OriginalSection, cause: str) -> None:
    """Note the keys that nobody has read; those of another place hold the policy."""
    for key in section.unread():
        if section.value(key) and (homes := places_of(key, DeschedulerPolicy)):
            section.held(key, _MISPLACED.format(" and of ".join(homes)))
        else:
            section.dropped(key, cause)


def _conversion(
    dialect: Dialect, draft: Draft, notes: list[ConversionNote], source: str
) -> Conversion:
    held = [note for note in notes if note.effect is Effect.HELD]
    if held:
        draft.hold()
    document = draft.document()
    notes = [*notes, *_warned(document, notes)]
    comments: dict[KeyPath, list[str]] = {}
    left_out: list[str] = []
    if held:
        advice = "Nothing is evicted. Remove this line when you have settled:"
        comments[HOLD] = [advice, *(f"- {note.comment}" for note in held)]
    for note in notes:
        if note.effect is Effect.HELD:
            continue
        if _is_in(document, note.here):
            comments.setdefault(note.here, []).append(note.comment)
        else:
            left_out.append(f"- {note.message}")
    header = [
        f"Converted by `desched policy convert` from {on_one_line(source)} ({dialect}).",
        "Show what it would do with `desched plan`, before it evicts anything.",
        *(["", "Left out:", *left_out] if left_out else ()),
    ]
    order = list(Effect)
    ordered = sorted(notes, key=lambda note: (order.index(note.effect), note.place, note.key))
    return Conversion(dialect, document, yaml_text(document, comments, header), tuple(ordered))


def _warned(document: object, notes: Iterable[ConversionNote]) -> Iterator[ConversionNote]:
    """What is worth knowing of the new policy, of keys that have no note yet."""
    noted = {HOLD, *(note.here for note in notes)}
    for finding in validate_policy(json.dumps(document), "the converted policy").findings:
        if finding.severity is Severity.WARNING and finding.path not in noted:
            yield ConversionNote(Effect.WARNED, (), Place(), finding.text, finding.path)


def _is_in(document: Any, path: KeyPath) -> bool:
    for part in path:
        inside = part in document if isinstance(document, dict) else isinstance(part, int)
        if not inside:
            return False
        document = document[part]
    return bool(path)
