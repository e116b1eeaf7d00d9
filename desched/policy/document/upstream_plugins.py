"""Plugins and keys of other deschedulers, with advice for their users."""

from collections.abc import Mapping
from enum import StrEnum

LOAD_AWARE = "LoadAware"
DEFAULT_EVICTOR = "DefaultEvictor"

_SIGS = "kubernetes-sigs/descheduler"
_KOORDINATOR = "Koordinator's descheduler"
_SIGS_AND_VOLCANO = "kubernetes-sigs/descheduler and Volcano's descheduler"


class UpstreamPlugin(StrEnum):
    """A plugin that another descheduler runs and desched does not."""

    LOW_NODE_UTILIZATION = "LowNodeUtilization"
    HIGH_NODE_UTILIZATION = "HighNodeUtilization"
    REMOVE_DUPLICATES = "RemoveDuplicates"
    REMOVE_FAILED_PODS = "RemoveFailedPods"
    POD_LIFE_TIME = "PodLifeTime"
    TOO_MANY_RESTARTS = "RemovePodsHavingTooManyRestarts"
    INTER_POD_ANTI_AFFINITY = "RemovePodsViolatingInterPodAntiAffinity"
    NODE_AFFINITY = "RemovePodsViolatingNodeAffinity"
    NODE_TAINTS = "RemovePodsViolatingNodeTaints"
    TOPOLOGY_SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
    LOW_NODE_LOAD = "LowNodeLoad"
    MIGRATION_CONTROLLER = "MigrationController"
    CUSTOM_PRIORITY = "CustomPriority"
    FRAGMENTATION_AWARE = "FragmentationAware"
    SCALE_DOWN_BIN_PACK = "ScaleDownBinPack"

    @property
    def run_by(self) -> str:
        """The descheduler that runs it."""
        return _KOORDINATOR if self in _OF_KOORDINATOR else _SIGS_AND_VOLCANO


_OF_KOORDINATOR = frozenset(
    {
        UpstreamPlugin.LOW_NODE_LOAD,
        UpstreamPlugin.MIGRATION_CONTROLLER,
        UpstreamPlugin.CUSTOM_PRIORITY,
        UpstreamPlugin.FRAGMENTATION_AWARE,
        UpstreamPlugin.SCALE_DOWN_BIN_PACK,
    }
)

COUNTERPARTS = frozenset({UpstreamPlugin.LOW_NODE_UTILIZATION, UpstreamPlugin.LOW_NODE_LOAD})
"""What LoadAware does in their place."""

_FROM_PROMETHEUS = (
    f"is a key of {_SIGS}; desched reads load from Prometheus, so remove the key and set metrics "
    "in the args of LoadAware"
)
UPSTREAM_KEYS: Mapping[str, str] = {
    "gracePeriodSeconds": (
        f"is a key of {_SIGS}; desched always leaves a pod its own grace period, so remove the key"
    ),
    "evictionFailureEventNotification": (
        f"is a key of {_SIGS}; desched reports every refused eviction anyway, so remove the key"
    ),
    "metricsCollector": _FROM_PROMETHEUS,
    "metricsProviders": _FROM_PROMETHEUS,
    "metricsUtilization": (
        f"is a key of LowNodeUtilization of {_SIGS}; set metrics in the args of LoadAware"
    ),
    "highThresholds": (
        f"is a key of LowNodeLoad of {_KOORDINATOR}; it is called targetThresholds here"
    ),
    "lowThresholds": f"is a key of LowNodeLoad of {_KOORDINATOR}; it is called thresholds here",
    "dryRun": "is a setting, not part of the policy; start desched with --dry-run",
}
"""Advice for keys that belong to others and mean nothing here."""
