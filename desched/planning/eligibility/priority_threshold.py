"""The priority from which on pods stay, once the cluster's PriorityClasses are known."""

from collections.abc import Mapping

from desched.errors import ConfigurationError
from desched.policy.policy import HIGHEST_PRIORITY_THRESHOLD, Policy
from desched.policy.wording import did_you_mean, quoted


def resolve_threshold(policy: Policy, priority_classes: Mapping[str, int]) -> int | None:
    """Pods of this priority and above stay; None where the policy sets no threshold.

    Raises:
        ConfigurationError: the policy names a PriorityClass that does not exist, or one above the
            highest threshold.
    """
    threshold = policy.protections.priority_threshold
    if threshold.class_name is None:
        return threshold.value
    name = threshold.class_name
    value = priority_classes.get(name)
    where = threshold.place or f"{policy.source}: priorityThreshold.name"
    if value is None:
        raise ConfigurationError(
            f"{where}: there is no PriorityClass {quoted(name)} in the cluster, so it is not known "
            "which pods must stay"
            f"{did_you_mean(name, sorted(priority_classes)) or '; create it or name another.'}"
        )
    if value > HIGHEST_PRIORITY_THRESHOLD:
        raise ConfigurationError(
            f"{where}: the PriorityClass {quoted(name)} has the value {value}, allowed is at most "
            f"{HIGHEST_PRIORITY_THRESHOLD}; name a lower one."
        )
    return value
