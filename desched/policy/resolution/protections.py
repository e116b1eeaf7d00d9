"""Which pods the policy protects: what LoadAware and DefaultEvictor say together.

Where both speak of the same pods, the more protective wins.
"""

from collections.abc import Iterable

from desched.model.selectors import LabelSelector
from desched.policy.compatibility import defaults_of
from desched.policy.document.default_evictor import (
    DefaultEvictorArgs,
    DefaultProtection,
    ExtraProtection,
    NoEvictionPolicy,
    PodProtections,
)
from desched.policy.document.load_aware import EvictableNamespaces
from desched.policy.document.values import LabelSelectorSection, PriorityThresholdSection
from desched.policy.policy import PriorityThreshold, Protections
from desched.policy.reading.problems import Notes
from desched.policy.reading.yaml_source import KeyPath
from desched.policy.resolution.plugins import ChosenProfile

_OLDER_FORM = {
    "evictLocalStoragePods": "evict_local_storage_pods",
    "evictDaemonSetPods": "evict_daemon_set_pods",
    "evictSystemCriticalPods": "evict_system_critical_pods",
    "evictFailedBarePods": "evict_failed_bare_pods",
    "ignorePvcPods": "ignore_pvc_pods",
    "ignorePodsWithoutPDB": "ignore_pods_without_pdb",
}


def resolve_protections(profile: ChosenProfile, notes: Notes) -> Protections:
    """The protections of both plugins; what is wrong with them is noted."""
    load_aware, evictor = profile.load_aware, profile.evictor
    defaults = defaults_of(load_aware.compatibility)
    switches = evictor.pod_protections or PodProtections()
    disabled = frozenset(switches.default_disabled or ())
    extra = frozenset(switches.extra_enabled or ())
    namespaces = load_aware.evictable_namespaces or EvictableNamespaces()
    _check_forms(evictor, switches, profile.evictor_path, notes)
    _check_namespaces(namespaces, profile.load_aware_path, notes)
    _warn_of_daemon_sets(evictor, disabled, profile.evictor_path, notes)
    _warn_of_host_paths(profile, disabled, notes)
    _warn_of_failed_pods(profile, disabled, notes)
    every_claim = bool(load_aware.ignore_pvc_pods or evictor.ignore_pvc_pods)
    classes = _storage_classes(switches, profile.evictor_path, notes)
    return Protections(
        priority_threshold=_priority_threshold(profile, notes),
        system_critical=_protected(
            load_aware.evict_system_critical_pods,
            evictor.evict_system_critical_pods,
            disabled=DefaultProtection.SYSTEM_CRITICAL in disabled,
        ),
        local_storage=_protected(
            load_aware.evict_local_storage_pods,
            evictor.evict_local_storage_pods,
            disabled=DefaultProtection.LOCAL_STORAGE in disabled,
        ),
        pvc_pods=every_claim or ExtraProtection.PVC in extra,
        protected_storage_classes=() if every_claim else classes,
        pods_without_budget=(
            bool(evictor.ignore_pods_without_pdb) or ExtraProtection.WITHOUT_BUDGET in extra
        ),
        single_replicas=(
            defaults.single_replicas
            if load_aware.evict_single_replica is None
            else not load_aware.evict_single_replica
        ),
        prefer_no_eviction_is_mandatory=evictor.no_eviction_policy is NoEvictionPolicy.MANDATORY,
        labels=_both(load_aware.label_selector, evictor.label_selector),
        namespace_labels=_both(evictor.namespace_label_selector),
        included_namespaces=namespaces.include or (),
        excluded_namespaces=namespaces.exclude or (),
        min_replicas=evictor.min_replicas or 0,
        min_pod_age_seconds=evictor.min_pod_age or 0,
        max_grace_period_seconds=(
            defaults.max_grace_period_seconds
            if load_aware.max_grace_period is None
            else load_aware.max_grace_period
        ),
        understood_owner_kinds=load_aware.understood_owner_kinds or (),
    )


def _protected(*evict: bool | None, disabled: bool) -> bool:
    """Whether the pods stay: unless a plugin says evict and none says not to."""
    return False in evict or not (True in evict or disabled)


def _both(*sections: LabelSelectorSection | None) -> LabelSelector | None:
    given = [section.selector() for section in sections if section is not None]
    requirements = tuple(requirement for s in given for requirement in s.requirements)
    return LabelSelector(requirements) if requirements else None


def _check_forms(
    evictor: DefaultEvictorArgs, switches: PodProtections, path: KeyPath, notes: Notes
) -> None:
    older = [key for key, name in _OLDER_FORM.items() if getattr(evictor, name)]
    if older and (switches.default_disabled or switches.extra_enabled):
        notes.refuse(
            (*path, older[0]),
            f"{_listed(older)} and the lists of podProtections are two forms of the same; "
            "move it into podProtections.",
        )
    for key, listed in (
        ("defaultDisabled", switches.default_disabled or ()),
        ("extraEnabled", switches.extra_enabled or ()),
    ):
        for index, name in enumerate(listed):
            if name in listed[:index]:
                notes.refuse(
                    (*path, "podProtections", key, index), f"{name} stands here twice; remove one."
                )


def _listed(words: Iterable[str]) -> str:
    return " and ".join(words)


def _check_namespaces(namespaces: EvictableNamespaces, path: KeyPath, notes: Notes) -> None:
    if namespaces.include and namespaces.exclude:
        notes.refuse(
            (*path, "evictableNamespaces"),
            "has include and exclude; give one of them: include names the only namespaces whose "
            "pods may move, exclude those whose pods stay.",
        )


def _warn_of_daemon_sets(
    evictor: DefaultEvictorArgs,
    disabled: frozenset[DefaultProtection],
    path: KeyPath,
    notes: Notes,
) -> None:
    if evictor.evict_daemon_set_pods:
        notes.warn((*path, "evictDaemonSetPods"), "has no effect; pods of DaemonSets never move.")
    if DefaultProtection.DAEMON_SETS in disabled:
        notes.warn(
            (*path, "podProtections", "defaultDisabled"),
            "DaemonSetPods has no effect; pods of DaemonSets never move.",
        )


def _warn_of_host_paths(
    profile: ChosenProfile, disabled: frozenset[DefaultProtection], notes: Notes
) -> None:
    text = "lets pods with an emptyDir go; those with a hostPath move only if an annotation asks."
    for args, path in (
        (profile.load_aware, profile.load_aware_path),
        (profile.evictor, profile.evictor_path),
    ):
        if args.evict_local_storage_pods:
            notes.warn((*path, "evictLocalStoragePods"), text)
    if DefaultProtection.LOCAL_STORAGE in disabled:
        at = (*profile.evictor_path, "podProtections", "defaultDisabled")
        notes.warn(at, f"PodsWithLocalStorage {text}")


def _storage_classes(switches: PodProtections, path: KeyPath, notes: Notes) -> tuple[str, ...]:
    details = switches.config.pods_with_pvc if switches.config else None
    classes = tuple(c.name for c in (details and details.protected_storage_classes) or ())
    if classes and ExtraProtection.PVC not in (switches.extra_enabled or ()):
        notes.warn(
            (*path, "podProtections", "config", "PodsWithPVC"),
            "has no effect, because PodsWithPVC is not in extraEnabled.",
        )
        return ()
    return classes


def _priority_threshold(profile: ChosenProfile, notes: Notes) -> PriorityThreshold:
    values: list[int] = []
    names: dict[str, KeyPath] = {}
    for section, path in (
        (profile.load_aware.priority_threshold, profile.load_aware_path),
        (profile.evictor.priority_threshold, profile.evictor_path),
    ):
        given = section or PriorityThresholdSection()
        if given.value is not None and given.name:
            notes.refuse(
                (*path, "priorityThreshold"),
                f'has a value ({given.value}) and a name ("{given.name}"); give one of them.',
            )
        elif given.name:
            names.setdefault(given.name, (*path, "priorityThreshold", "name"))
        elif given.value is not None:
            values.append(given.value)
    if len(names) > 1 or (names and values):
        notes.refuse(
            (*profile.load_aware_path, "priorityThreshold"),
            "differs from the priorityThreshold of DefaultEvictor, and because one of them names a "
            "PriorityClass, only the cluster knows which is lower; give it once.",
        )
    name = next(iter(names), None)
    return PriorityThreshold(min(values, default=None), name, names[name] if name else ())


def _warn_of_failed_pods(
    profile: ChosenProfile, disabled: frozenset[DefaultProtection], notes: Notes
) -> None:
    meaning = "has no effect; a failed pod makes no load that a move could take away."
    for args, path in (
        (profile.load_aware, profile.load_aware_path),
        (profile.evictor, profile.evictor_path),
    ):
        if args.evict_failed_bare_pods:
            notes.warn((*path, "evictFailedBarePods"), meaning)
    if DefaultProtection.FAILED_BARE_PODS in disabled:
        where = (*profile.evictor_path, "podProtections", "defaultDisabled")
        notes.warn(where, f"FailedBarePods {meaning}")
