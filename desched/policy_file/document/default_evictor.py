"""The arguments of the plugin DefaultEvictor: which pods are protected."""

from enum import StrEnum

from pydantic import Field

from desched.policy_file.document.values import (
    Count,
    LabelSelectorSection,
    PluginArgs,
    PriorityThresholdSection,
    Seconds,
    Section,
    SelectorText,
    optional,
)


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
