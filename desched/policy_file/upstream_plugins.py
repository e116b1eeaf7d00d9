"""Plugins and keys of other deschedulers, with advice for their users."""

from collections.abc import Mapping

from desched.plugins import HOUSE
from desched.policy.wording import did_you_mean, quoted
from desched.policy_keys.profile_plugin import ProfilePlugin

LOAD_AWARE = "LoadAware"
DEFAULT_EVICTOR = "DefaultEvictor"
OF_HOUSE: Mapping[str, type[ProfilePlugin]] = {
    plugin.in_profiles.plugin_name(): plugin.in_profiles
    for plugin in HOUSE
    if plugin.in_profiles is not None
}
"""The configurations of plugins that profiles enable beside LoadAware, by their names."""
OWN_PLUGINS = (LOAD_AWARE, *OF_HOUSE, DEFAULT_EVICTOR)
"""The plugins that desched has."""

_SIGS = "kubernetes-sigs/descheduler"
_KOORDINATOR = "Koordinator's descheduler"

UPSTREAM_PLUGINS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "LowNodeUtilization",
            "HighNodeUtilization",
            "RemoveDuplicates",
            "RemoveFailedPods",
            "PodLifeTime",
            "RemovePodsHavingTooManyRestarts",
            "RemovePodsViolatingInterPodAntiAffinity",
            "RemovePodsViolatingNodeAffinity",
            "RemovePodsViolatingNodeTaints",
            "RemovePodsViolatingTopologySpreadConstraint",
        ),
        f"{_SIGS} and Volcano's descheduler",
    ),
    **dict.fromkeys(
        (
            "LowNodeLoad",
            "MigrationController",
            "CustomPriority",
            "FragmentationAware",
            "ScaleDownBinPack",
        ),
        _KOORDINATOR,
    ),
}
"""Plugins that other deschedulers run and desched does not, with who runs them."""
COUNTERPARTS = frozenset({"LowNodeUtilization", "LowNodeLoad"})
"""What LoadAware does in their place."""


def no_such_plugin(name: object) -> str:
    """The sentence about a name that is no plugin's."""
    return (
        f"found {quoted(name)}, which is no plugin that desched has; "
        f"allowed are {', '.join(OWN_PLUGINS)}{did_you_mean(name, OWN_PLUGINS) or '.'}"
    )


_OF_LOAD = (
    f"is a key of {_SIGS}; remove it, and set metrics in the args of LoadAware to Prometheus or "
    "metrics-server"
)
UPSTREAM_KEYS: Mapping[str, str] = {
    "gracePeriodSeconds": (
        f"is a key of {_SIGS}; desched always leaves a pod its own grace period, so remove the key"
    ),
    "evictionFailureEventNotification": (
        f"is a key of {_SIGS}; desched reports every refused eviction anyway, so remove the key"
    ),
    "metricsCollector": _OF_LOAD,
    "metricsProviders": _OF_LOAD,
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
