"""The cost of an eviction as one number: 1 for the disruption, plus bounded surcharges.

docs/selection.md has the table with reasons. The bounds keep a balance: one ordinary pod is cheaper
than many tiny ones, and a few tiny ones are cheaper than one important pod.
"""

import math
from collections.abc import Mapping
from datetime import datetime

from desched.model.cluster import Pod, Workload
from desched.planning.eligibility.annotations import (
    EVICTION_COST_ANNOTATION,
    PREFER_NO_EVICTION_ANNOTATION,
)

# Kubernetes 1.36. With a feature gate Karpenter writes it, so that a node becomes empty.
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
# Karpenter, alpha in 2026 (pull request 2894); it takes the place of the other.
DISRUPTION_COST_ANNOTATION = "karpenter.sh/disruption-cost"

EVICTION = 1.0
MOST_FOR_PRIORITY = 3.0
MOST_FOR_PREFERENCE = 2.0
MOST_FOR_SHARE = 0.5
MOST_FOR_YOUTH = 0.5
FOR_QOS = {"Guaranteed": 0.5, "Burstable": 0.25, "BestEffort": 0.0}

SETTLED_AFTER_SECONDS = 24 * 3600
"""After a day, a pod's usage has shown its whole daily pattern."""

_DIGITS_PER_UNIT = 3  # a priority of 1,000 costs 1, of a million 2, of a billion 3
_COST_DIGITS_PER_UNIT = 2  # a deletion cost of 100 costs 1, of 10,000 and above 2
_LARGEST_INT32 = 2**31 - 1


def cost(pod: Pod, workload: Workload | None, now: datetime) -> float:
    """The cost of the eviction of this pod, from 1 to 7.5, without what plugins add.

    `workload` is None if not understood.
    """
    return (
        EVICTION
        + _of_priority(pod.priority)
        + _of_preference(pod, workload)
        + FOR_QOS.get(pod.qos, max(FOR_QOS.values()))
        + MOST_FOR_SHARE / max(1, workload.desired_replicas if workload else 1)
        + _of_youth(pod, now)
    )


def _of_priority(priority: int) -> float:
    return min(MOST_FOR_PRIORITY, math.log10(1 + max(0, priority)) / _DIGITS_PER_UNIT)


def _of_preference(pod: Pod, workload: Workload | None) -> float:
    on_workload = workload.annotations if workload else {}
    if not pod.annotations and not on_workload:
        return 0.0  # most pods
    annotations = {**on_workload, **pod.annotations}
    if PREFER_NO_EVICTION_ANNOTATION in annotations:
        return MOST_FOR_PREFERENCE
    has_own = DISRUPTION_COST_ANNOTATION in annotations
    stated = max(
        _stated(annotations, DISRUPTION_COST_ANNOTATION if has_own else DELETION_COST_ANNOTATION),
        _stated(annotations, EVICTION_COST_ANNOTATION),
    )
    return min(MOST_FOR_PREFERENCE, math.log10(1 + stated) / _COST_DIGITS_PER_UNIT)


def _stated(annotations: Mapping[str, str], annotation: str) -> int:
    try:
        value = int(annotations.get(annotation, "0"))
    except ValueError:
        return 0  # the controllers that read these annotations also ignore invalid values
    return min(max(0, value), _LARGEST_INT32)


def _of_youth(pod: Pod, now: datetime) -> float:
    age_seconds = (now - (pod.started_at or pod.created_at)).total_seconds()
    return MOST_FOR_YOUTH * min(1.0, max(0.0, 1.0 - age_seconds / SETTLED_AFTER_SECONDS))
