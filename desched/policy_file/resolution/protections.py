"""Which pods the policy protects, by LoadAware and DefaultEvictor together.

If both have a key for the same pods, the more protective value applies.
"""

from pydantic.alias_generators import to_camel

from desched.model.pod_groups import VOLCANO_JOB_KIND
from desched.policy.compatibility import GpuPods, VolcanoJobs
from desched.policy.policy import PriorityThreshold, Protections
from desched.policy_file.document.default_evictor import (
    DefaultEvictorArgs,
    DefaultProtection,
    ExtraProtection,
    NoEvictionPolicy,
    PodProtections,
)
from desched.policy_file.document.load_aware import EvictableNamespaces
from desched.policy_file.document.sections import names
from desched.policy_file.document.values import PriorityThresholdSection, all_of
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.plugins import ChosenProfile

DEFAULT_NAMESPACE = "default"

_OLDER_FORM = ("evict", "ignore")
"""Keys of DefaultEvictor that `podProtections` replaces begin with these words."""
_OTHER_THAN_EXPECTED = (
    (
        "evict_daemon_set_pods",
        DefaultProtection.DAEMON_SETS,
        "has no effect; pods of DaemonSets never move.",
    ),
    (
        "evict_local_storage_pods",
        DefaultProtection.LOCAL_STORAGE,
        "lets pods with an emptyDir move; those with a hostPath need an annotation as well.",
    ),
    (
        "evict_failed_bare_pods",
        DefaultProtection.FAILED_BARE_PODS,
        "has no effect; a failed pod makes no load that a move could take away.",
    ),
)
"""A key of the plugins, its newer form in `podProtections`, and what either does here."""


def resolve_protections(profile: ChosenProfile) -> Protections:
    """The protections of both plugins; what is wrong with them is noted."""
    args, evictor = profile.load_aware, profile.evictor
    switches = evictor.pod_protections or PodProtections()
    extra = switches.extra_enabled or ()
    namespaces = args.evictable_namespaces or EvictableNamespaces()
    _check_forms(evictor, switches, profile.evictor_notes)
    _warn_of_other_effects(profile, switches)
    if namespaces.include and namespaces.exclude:
        profile.notes.refuse(
            "has include and exclude; give one of them: include names the only namespaces whose "
            "pods may move, exclude those whose pods stay.",
            "evictableNamespaces",
        )
    if DEFAULT_NAMESPACE in (namespaces.exclude or ()):
        profile.notes.warn(
            "names default, where kubectl creates objects without a namespace; the pods of your "
            "Deployments there never move.",
            "evictableNamespaces",
            "exclude",
        )
    every_claim = bool(args.ignore_pvc_pods or evictor.ignore_pvc_pods)
    classes = _storage_classes(switches, profile.evictor_notes)

    def protected(name: str, protection: DefaultProtection) -> bool:
        """Whether the pods stay: unless one plugin allows their eviction and none forbids it."""
        evict = (getattr(args, name), getattr(evictor, name))
        disabled = protection in (switches.default_disabled or ())
        return False in evict or not (True in evict or disabled)

    kinds = args.understood_owner_kinds or ()
    if args.volcano_jobs is VolcanoJobs.SURPLUS:
        kinds = (*kinds, VOLCANO_JOB_KIND)
    return Protections(
        priority_threshold=_priority_threshold(profile),
        system_critical=protected("evict_system_critical_pods", DefaultProtection.SYSTEM_CRITICAL),
        local_storage=protected("evict_local_storage_pods", DefaultProtection.LOCAL_STORAGE),
        pvc_pods=every_claim or ExtraProtection.PVC in extra,
        protected_storage_classes=() if every_claim else classes,
        pods_without_budget=(
            bool(evictor.ignore_pods_without_pdb) or ExtraProtection.WITHOUT_BUDGET in extra
        ),
        resource_claims=ExtraProtection.RESOURCE_CLAIMS in extra,
        single_replicas=profile.defaults.single_replicas,
        gpu_pods=profile.defaults.gpu_pods is GpuPods.PROTECT,
        prefer_no_eviction_is_mandatory=evictor.no_eviction_policy is NoEvictionPolicy.MANDATORY,
        labels=all_of(args.label_selector, evictor.label_selector),
        namespace_labels=all_of(evictor.namespace_label_selector),
        included_namespaces=namespaces.include or (),
        excluded_namespaces=namespaces.exclude or (),
        min_replicas=evictor.min_replicas or 0,
        min_pod_age_seconds=evictor.min_pod_age or 0,
        max_grace_period_seconds=profile.defaults.max_grace_period_seconds,
        understood_owner_kinds=tuple(dict.fromkeys(kinds)),
    )


def _check_forms(evictor: DefaultEvictorArgs, switches: PodProtections, notes: Notes) -> None:
    attributes = names(DefaultEvictorArgs).items()
    older = [k for k, name in attributes if k.startswith(_OLDER_FORM) and getattr(evictor, name)]
    if older and (switches.default_disabled or switches.extra_enabled):
        notes.refuse(
            f"{' and '.join(older)} and the lists of podProtections are two forms of the same; "
            "move it into podProtections.",
            older[0],
        )
    for key, listed in (
        ("defaultDisabled", switches.default_disabled or ()),
        ("extraEnabled", switches.extra_enabled or ()),
    ):
        for index, name in enumerate(listed):
            if name in listed[:index]:
                notes.refuse(f"{name} is listed twice; remove one.", "podProtections", key, index)


def _warn_of_other_effects(profile: ChosenProfile, switches: PodProtections) -> None:
    for name, protection, effect in _OTHER_THAN_EXPECTED:
        for args, notes in profile.plugins:
            if getattr(args, name, None):
                notes.warn(effect, to_camel(name))
        if protection in (switches.default_disabled or ()):
            profile.evictor_notes.warn(
                f"{protection} {effect}", "podProtections", "defaultDisabled"
            )


def _storage_classes(switches: PodProtections, notes: Notes) -> tuple[str, ...]:
    details = switches.config.pods_with_pvc if switches.config else None
    classes = tuple(c.name for c in (details and details.protected_storage_classes) or ())
    if classes and ExtraProtection.PVC not in (switches.extra_enabled or ()):
        at = notes.below("podProtections", "config", "PodsWithPVC")
        at.warn("has no effect, because PodsWithPVC is not in extraEnabled.")
        return ()
    return classes


def _priority_threshold(profile: ChosenProfile) -> PriorityThreshold:
    found: list[PriorityThreshold] = []
    for args, notes in profile.plugins:
        given = args.priority_threshold or PriorityThresholdSection()
        at = notes.below("priorityThreshold")
        if given.value is not None and given.name:
            at.refuse(f'has a value ({given.value}) and a name ("{given.name}"); give one of them.')
        elif given.name:
            found.append(PriorityThreshold(class_name=given.name, place=at.place("name")))
        elif given.value is not None:
            found.append(PriorityThreshold(given.value))
    named = [threshold for threshold in found if threshold.class_name]
    if named and len({(t.value, t.class_name) for t in found}) > 1:
        profile.notes.refuse(
            "differs from the priorityThreshold of DefaultEvictor, and because one of them names a "
            "PriorityClass, only the cluster knows which is lower; give it once.",
            "priorityThreshold",
        )
    return next(iter(named or sorted(found, key=lambda t: t.value or 0)), PriorityThreshold())
