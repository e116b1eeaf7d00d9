"""Which pods may move: the arguments of DefaultEvictor, and what other plugins have like them."""

import re
from collections.abc import Iterable
from typing import Any

from desched.convert.draft import Draft, here, of_evictor
from desched.convert.original import OriginalSection
from desched.convert.selectors import label_selector, selector_text
from desched.policy.durations import duration_text
from desched.policy.policy import HIGHEST_PRIORITY_THRESHOLD
from desched.policy.wording import quoted
from desched.policy_file.sections.default_evictor import (
    DefaultProtection,
    ExtraProtection,
    NoEvictionPolicy,
)

_LOWEST = -(2**31)
_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NEVER_MOVE = {
    "evictDaemonSetPods": "pods of DaemonSets never move.",
    "evictFailedBarePods": "pods without a controller never move.",
    "evictAllBarePods": "pods without a controller never move.",
}
_NODE_FIT = "whether a pod fits elsewhere is always checked here."


def convert_switches(section: OriginalSection, draft: Draft) -> None:
    """The switches that DefaultEvictor, MigrationController and v1alpha1 have in common."""
    for key, text in _NEVER_MOVE.items():
        if section.flag(key):
            section.dropped(key, text)
    if section.flag("evictLocalStoragePods"):
        draft.evictor["evictLocalStoragePods"] = True
        text = 'pods with a hostPath also need the annotation desched.io/evict: "true" here.'
        section.changed("evictLocalStoragePods", text, of_evictor("evictLocalStoragePods"))
    if section.flag("evictSystemCriticalPods"):
        draft.evictor["evictSystemCriticalPods"] = True
        text = "priorityThreshold applies here even so; there it was switched off by this."
        section.changed("evictSystemCriticalPods", text, of_evictor("evictSystemCriticalPods"))
    if section.flag("ignorePvcPods"):
        draft.evictor["ignorePvcPods"] = True
    fits = section.flag("nodeFit")
    if fits is False:
        section.dropped("nodeFit", _NODE_FIT)


def convert_selectors(section: OriginalSection, draft: Draft) -> None:
    """The selectors and the priority that these plugins have in common."""
    if labels := label_selector(section, "labelSelector"):
        add_labels(draft, labels)
    if nodes := selector_text(section, "nodeSelector"):
        draft.evictor["nodeSelector"] = nodes
    convert_priority(section.section("priorityThreshold"), draft)


def add_labels(draft: Draft, labels: dict[str, Any]) -> None:
    """Only pods with these labels may move, besides those that are asked for already."""
    earlier = draft.evictor.get("labelSelector")
    if earlier is None:
        draft.evictor["labelSelector"] = labels
        return
    conditions = [
        condition
        for selector in (earlier, labels)
        for condition in (
            *(
                {"key": key, "operator": "In", "values": [value]}
                for key, value in (selector.get("matchLabels") or {}).items()
            ),
            *(selector.get("matchExpressions") or ()),
        )
    ]
    draft.evictor["labelSelector"] = {"matchExpressions": conditions}


def protect_claims(draft: Draft) -> None:
    """Pods with a claim stay, in the form that the evictor has already."""
    protections = draft.evictor.get("podProtections")
    if protections is None:
        draft.evictor["ignorePvcPods"] = True
        return
    extra = protections.setdefault("extraEnabled", [])
    if ExtraProtection.PVC not in extra:
        extra.append(ExtraProtection.PVC.value)
    protections.pop("config", None)


def convert_priority(section: OriginalSection, draft: Draft) -> None:
    """The priority from which pods stay, by value or by name."""
    value, name = section.value("value"), section.text("name")
    if type(value) is int:
        if name:
            section.dropped("name", "there is a value as well, which applies.")
        if value > HIGHEST_PRIORITY_THRESHOLD:
            text = f"{value} is above the highest; system-critical pods stay here."
            section.changed("value", text, of_evictor("priorityThreshold"))
        draft.evictor["priorityThreshold"] = {
            "value": max(min(value, HIGHEST_PRIORITY_THRESHOLD), _LOWEST)
        }
    elif value is not None:
        section.refuse("value", f"found {quoted(value)}, allowed is a whole number.")
    elif name:
        draft.evictor["priorityThreshold"] = {"name": name}
        text = "the PriorityClass must exist in the cluster, or else desched does not start."
        section.changed("name", text, of_evictor("priorityThreshold"))


def namespaces(section: OriginalSection) -> dict[str, list[str]]:
    """The included or excluded namespaces of a section, which may have both in broken files."""
    namespaces_of = {}
    for key in ("include", "exclude"):
        names = section.texts(key)
        for name in names:
            if not _NAMESPACE.fullmatch(name):
                text = f"{quoted(name)} is not the name of a namespace; correct it first."
                section.refuse(key, text)
        if names:
            namespaces_of[key] = names
    return namespaces_of


def set_namespaces(
    draft: Draft, section: OriginalSection, given: Iterable[dict[str, list[str]]]
) -> None:
    """The namespaces that all of these lists let go."""
    included: list[str] | None = None
    excluded: list[str] = []
    for lists in given:
        if "include" in lists:
            names = lists["include"]
            included = names if included is None else [n for n in included if n in names]
        excluded += lists.get("exclude", ())
    excluded = list(dict.fromkeys(excluded))
    if included is None:
        if excluded:
            draft.load_aware["evictableNamespaces"] = {"exclude": excluded}
        return
    left = [name for name in included if name not in excluded]
    if not left:
        section.held("", "the lists of namespaces leave none whose pods may move.")
        left = included or excluded
    draft.load_aware["evictableNamespaces"] = {"include": left}
    if excluded:
        text = "include without what exclude names; a policy has only one of them."
        section.added(text, here("evictableNamespaces"))


def convert_default_evictor(section: OriginalSection, draft: Draft) -> None:
    """The arguments of the plugin DefaultEvictor."""
    convert_switches(section, draft)
    convert_selectors(section, draft)
    if section.flag("ignorePodsWithoutPDB"):
        draft.evictor["ignorePodsWithoutPDB"] = True
    if labels := label_selector(section, "namespaceLabelSelector"):
        draft.evictor["namespaceLabelSelector"] = labels
    if (replicas := section.count("minReplicas")) is not None:
        draft.evictor["minReplicas"] = replicas
    if (age := section.seconds("minPodAge")) is not None:
        draft.evictor["minPodAge"] = duration_text(age)
    preference = section.text("noEvictionPolicy")
    if preference in list(NoEvictionPolicy):
        draft.evictor["noEvictionPolicy"] = preference
    elif preference:
        section.refuse("noEvictionPolicy", f"found {quoted(preference)}, which is unknown.")
    _protections(section.section("podProtections"), draft)
    unknown_args(section)


def _protections(section: OriginalSection, draft: Draft) -> None:
    protections: dict[str, Any] = {}
    disabled = section.texts("defaultDisabled")
    for unknown in (name for name in disabled if name not in list(DefaultProtection)):
        section.dropped("defaultDisabled", f"{quoted(unknown)} is unknown here, so it protects.")
    extra = section.texts("extraEnabled")
    for unknown in (name for name in extra if name not in list(ExtraProtection)):
        section.held("extraEnabled", f"{quoted(unknown)} is unknown here and would not protect.")
    lists = {
        "defaultDisabled": [n for n in disabled if n in list(DefaultProtection)],
        "extraEnabled": [n for n in extra if n in list(ExtraProtection)],
    }
    protections |= {key: list(dict.fromkeys(names)) for key, names in lists.items() if names}
    classes = section.section("config").section("PodsWithPVC").sections("protectedStorageClasses")
    named = [{"name": name} for declared in classes if (name := declared.text("name"))]
    if named and ExtraProtection.PVC in extra:
        protections["config"] = {"PodsWithPVC": {"protectedStorageClasses": named}}
    if protections:
        older = [key for key in draft.evictor if key.startswith(("evict", "ignore"))]
        if older:
            text = (
                f"cannot stand beside {' and '.join(older)}, there neither; use one of the forms."
            )
            section.refuse("", text)
        draft.evictor["podProtections"] = protections


def unknown_args(section: OriginalSection) -> None:
    """Hold for args that nobody has read: they may protect pods."""
    section.value("apiVersion")
    section.value("kind")
    for key in section.unread():
        section.held(key, "is unknown, so what it protects is not known either.")
