"""Which pods stay: the arguments of DefaultEvictor, with those of LoadAware for the same pods.

If both have a key for the same pods, the more protective value applies.
"""

from enum import StrEnum

from pydantic import Field
from pydantic.alias_generators import to_camel

from desched.policy.policy import PriorityThreshold, Protections
from desched.policy_file.sections.load_aware import EvictableNamespaces, LoadAwareArgs
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import PluginArgs, Section, names, optional
from desched.policy_keys.values import (
    Count,
    LabelSelectorSection,
    PriorityThresholdSection,
    Seconds,
    SelectorText,
    all_of,
)

DEFAULT_NAMESPACE = "default"


class DefaultProtection(StrEnum):
    """A protection that holds unless it is disabled."""

    LOCAL_STORAGE = "PodsWithLocalStorage"
    DAEMON_SETS = "DaemonSetPods"
    SYSTEM_CRITICAL = "SystemCriticalPods"
    FAILED_BARE_PODS = "FailedBarePods"


class ExtraProtection(StrEnum):
    """A protection that holds only if it is enabled."""

    PVC = "PodsWithPVC"
    WITHOUT_BUDGET = "PodsWithoutPDB"
    RESOURCE_CLAIMS = "PodsWithResourceClaims"


class NoEvictionPolicy(StrEnum):
    """What the annotation prefer-no-eviction means."""

    PREFERRED = "Preferred"
    MANDATORY = "Mandatory"


class ProtectedStorageClass(Section):
    """A StorageClass, by name."""

    name: str = Field(min_length=1)
    """The StorageClass."""


class PVCProtection(Section):
    """Which claims protect a pod."""

    protected_storage_classes: tuple[ProtectedStorageClass, ...] | None = None
    """Only claims of these StorageClasses. Default: all claims."""


class ProtectionConfig(Section):
    """Details of single protections."""

    pods_with_pvc: PVCProtection | None = optional(alias="PodsWithPVC")
    """Details of `PodsWithPVC`."""


class PodProtections(Section):
    """Protections switched off and on, by name."""

    default_disabled: tuple[DefaultProtection, ...] | None = None
    """Default protections to switch off. `DaemonSetPods` is accepted and has no effect: those pods
    never move."""
    extra_enabled: tuple[ExtraProtection, ...] | None = None
    """Further protections to switch on."""
    config: ProtectionConfig | None = None
    """Details of single protections."""


class DefaultEvictorArgs(PluginArgs):
    """Which pods stay, whatever the load."""

    node_selector: SelectorText | None = None
    """Label selector of the nodes that may be destinations."""
    evict_local_storage_pods: bool | None = optional(default=False)
    """Whether pods with an emptyDir on disk may move. Older form of `podProtections`."""
    evict_daemon_set_pods: bool | None = None
    """Accepted; pods of DaemonSets never move."""
    evict_system_critical_pods: bool | None = optional(default=False)
    """Whether pods of system-critical priority may move; `priorityThreshold` still applies. Older
    form of `podProtections`."""
    evict_failed_bare_pods: bool | None = optional(default=False)
    """Accepted; a failed pod makes no load that a move could relieve."""
    ignore_pvc_pods: bool | None = optional(default=False)
    """Whether pods with a PersistentVolumeClaim stay. Older form of `podProtections`."""
    ignore_pods_without_pdb: bool | None = optional(default=False, alias="ignorePodsWithoutPDB")
    """Whether pods that no PodDisruptionBudget covers stay. Older form of `podProtections`."""
    label_selector: LabelSelectorSection | None = None
    """Only pods with these labels may move."""
    namespace_label_selector: LabelSelectorSection | None = None
    """Only pods of namespaces with these labels may move."""
    priority_threshold: PriorityThresholdSection | None = optional(example={"name": "high"})
    """Pods of this priority and above stay. Default: system-critical pods stay."""
    node_fit: bool | None = None
    """Accepted; whether a pod fits elsewhere is always checked."""
    min_replicas: Count | None = optional(0)
    """Pods of workloads with fewer replicas than this stay; without a PodDisruptionBudget, this
    number must stay Ready while a pod moves."""
    min_pod_age: Seconds | None = None
    """Pods that started less than this ago stay. Default: no limit."""
    no_eviction_policy: NoEvictionPolicy | None = optional(NoEvictionPolicy.PREFERRED)
    """Whether the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction` lets other pods
    go first that suffice (`Preferred`) or protects the pod (`Mandatory`)."""
    pod_protections: PodProtections | None = None
    """Protections switched off and on, by name."""


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


_Plugin = tuple[LoadAwareArgs | DefaultEvictorArgs, Notes]


def resolve_protections(
    args: LoadAwareArgs, notes: Notes, evictor: DefaultEvictorArgs, evictor_notes: Notes
) -> Protections:
    """The protections of LoadAware and DefaultEvictor; what is wrong with them is noted."""
    plugins: tuple[_Plugin, ...] = ((args, notes), (evictor, evictor_notes))
    defaults = args.defaults
    switches = evictor.pod_protections or PodProtections()
    extra = switches.extra_enabled or ()
    namespaces = args.evictable_namespaces or EvictableNamespaces()
    _check_forms(evictor, switches, evictor_notes)
    _warn_of_other_effects(plugins, switches)
    if namespaces.include and namespaces.exclude:
        notes.refuse(
            "has include and exclude; give one of them: include names the only namespaces whose "
            "pods may move, exclude those whose pods stay.",
            "evictableNamespaces",
        )
    if DEFAULT_NAMESPACE in (namespaces.exclude or ()):
        notes.warn(
            "names default, where kubectl creates objects without a namespace; the pods of your "
            "Deployments there never move.",
            "evictableNamespaces",
            "exclude",
        )
    every_claim = bool(args.ignore_pvc_pods or evictor.ignore_pvc_pods)
    classes = _storage_classes(switches, evictor_notes)

    def protected(name: str, protection: DefaultProtection) -> bool:
        """Whether the pods stay: unless one plugin allows their eviction and none forbids it."""
        evict = (getattr(args, name), getattr(evictor, name))
        disabled = protection in (switches.default_disabled or ())
        return False in evict or not (True in evict or disabled)

    return Protections(
        priority_threshold=_priority_threshold(plugins),
        system_critical=protected("evict_system_critical_pods", DefaultProtection.SYSTEM_CRITICAL),
        local_storage=protected("evict_local_storage_pods", DefaultProtection.LOCAL_STORAGE),
        pvc_pods=every_claim or ExtraProtection.PVC in extra,
        protected_storage_classes=() if every_claim else classes,
        pods_without_budget=(
            bool(evictor.ignore_pods_without_pdb) or ExtraProtection.WITHOUT_BUDGET in extra
        ),
        resource_claims=ExtraProtection.RESOURCE_CLAIMS in extra,
        single_replicas=defaults.single_replicas,
        prefer_no_eviction_is_mandatory=evictor.no_eviction_policy is NoEvictionPolicy.MANDATORY,
        labels=all_of(args.label_selector, evictor.label_selector),
        namespace_labels=all_of(evictor.namespace_label_selector),
        included_namespaces=namespaces.include or (),
        excluded_namespaces=namespaces.exclude or (),
        min_replicas=evictor.min_replicas or 0,
        min_pod_age_seconds=evictor.min_pod_age or 0,
        max_grace_period_seconds=defaults.max_grace_period_seconds,
        understood_owner_kinds=tuple(dict.fromkeys(args.understood_owner_kinds or ())),
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


def _warn_of_other_effects(plugins: tuple[_Plugin, ...], switches: PodProtections) -> None:
    for name, protection, effect in _OTHER_THAN_EXPECTED:
        for args, notes in plugins:
            if getattr(args, name, None):
                notes.warn(effect, to_camel(name))
        if protection in (switches.default_disabled or ()):
            _, at = plugins[-1]
            at.warn(f"{protection} {effect}", "podProtections", "defaultDisabled")
    for args, notes in plugins:
        if args.node_fit is False:
            text = "has no effect; whether a pod fits elsewhere is always checked."
            notes.warn(text, "nodeFit")


def _storage_classes(switches: PodProtections, notes: Notes) -> tuple[str, ...]:
    details = switches.config.pods_with_pvc if switches.config else None
    classes = tuple(c.name for c in (details and details.protected_storage_classes) or ())
    if classes and ExtraProtection.PVC not in (switches.extra_enabled or ()):
        at = notes.below("podProtections", "config", "PodsWithPVC")
        at.warn("has no effect, because PodsWithPVC is not in extraEnabled.")
        return ()
    return classes


def _priority_threshold(plugins: tuple[_Plugin, ...]) -> PriorityThreshold:
    thresholds: list[PriorityThreshold] = []
    for args, notes in plugins:
        given = args.priority_threshold or PriorityThresholdSection()
        at = notes.below("priorityThreshold")
        if given.value is not None and given.name:
            at.refuse(f'has a value ({given.value}) and a name ("{given.name}"); give one of them.')
        elif given.name:
            thresholds.append(PriorityThreshold(class_name=given.name, place=at.place("name")))
        elif given.value is not None:
            thresholds.append(PriorityThreshold(given.value))
    named = [threshold for threshold in thresholds if threshold.class_name]
    if named and len({(t.value, t.class_name) for t in thresholds}) > 1:
        _, of_load_aware = plugins[0]
        of_load_aware.refuse(
            "differs from the priorityThreshold of DefaultEvictor, and because one of them names a "
            "PriorityClass, only the cluster knows which is lower; give it once.",
            "priorityThreshold",
        )
    return next(iter(named or sorted(thresholds, key=lambda t: t.value or 0)), PriorityThreshold())
