"""Eviction annotations on a pod and its workload, and their precedence.

1. `desched.io/evict` overrides all others: "true" requests a move, any other value forbids it.
2. Among the annotations of other projects, one that forbids wins over one that requests.
3. An annotation on a workload applies to all of its pods. If pod and workload differ, the one that
   forbids wins. A value that is not understood forbids.

What others mean by theirs, and in which version that was read, is beside each.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from desched.model.cluster import Pod, PodVolume, Workload
from desched.model.text import TRUE
from desched.policy.durations import duration_seconds

OWN_ANNOTATION = "desched.io/evict"
# sigs/descheduler 0.34 takes any value as "true" (issue 1659); "false" forbids here.
EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
# sigs/descheduler since 0.34: only its presence counts, `noEvictionPolicy` says how much.
PREFER_NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
# Volcano reads it of a pod or a PodGroup, or else the label of the same name.
PREEMPTABLE = "volcano.sh/preemptable"
# Cluster Autoscaler, utils/drain/drain.go: "true" on a pod also says that its local storage may be
# lost; the other one names those of its volumes that may be.
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_TO_EVICT_VOLUMES_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
# Karpenter since 2026 (pull request 2874): "true", or a duration of Go since the pod's start.
DO_NOT_DISRUPT_ANNOTATION = "karpenter.sh/do-not-disrupt"
# Koordinator, apis/extension/descheduling.go: the largest number forbids.
EVICTION_COST_ANNOTATION = "scheduling.koordinator.sh/eviction-cost"
FORBIDDING_COST = 2**31 - 1
_FALSE = frozenset({"false", "f", "0"})


def _is_forbidding_cost(value: str) -> bool:
    try:
        return int(value) >= FORBIDDING_COST
    except ValueError:
        return True


def _protection_ends(value: str, pod: Pod) -> datetime | None:
    """When the pod may be disrupted by an annotation of Karpenter with a duration, None if never.

    Go has no days and weeks.
    """
    if pod.started_at is None or not value.endswith(_UNITS_OF_GO):
        return None
    try:
        seconds = duration_seconds(value)
    except ValueError:
        return None
    return pod.started_at + timedelta(seconds=seconds) if seconds else None


_UNITS_OF_GO = ("s", "m", "h")

_FORBIDS: Mapping[str, Callable[[str], bool]] = {
    OWN_ANNOTATION: lambda value: value not in TRUE,
    EVICT_ANNOTATION: lambda value: bool(value) and value not in TRUE,  # often without a value
    SAFE_TO_EVICT_ANNOTATION: lambda value: value not in TRUE,
    DO_NOT_DISRUPT_ANNOTATION: lambda value: value not in _FALSE,
    PREEMPTABLE: lambda value: value not in TRUE,
    EVICTION_COST_ANNOTATION: _is_forbidding_cost,
}

EVICTION_ANNOTATIONS = (*_FORBIDS, PREFER_NO_EVICTION_ANNOTATION, SAFE_TO_EVICT_VOLUMES_ANNOTATION)
"""All annotations about evictions that desched reads."""


def may_lose(pod: Pod, volume: PodVolume) -> bool:
    """Whether the pod says so to Cluster Autoscaler, which reads it on pods only, to the letter."""
    if not pod.annotations:
        return False  # most pods
    named = pod.annotations.get(SAFE_TO_EVICT_VOLUMES_ANNOTATION, "").split(",")
    return pod.annotations.get(SAFE_TO_EVICT_ANNOTATION) == "true" or (
        bool(volume.name) and volume.name in named
    )


class EvictionAnnotations(msgspec.Struct, frozen=True, gc=False):
    """Whether annotations request or forbid the eviction of a pod; `detail` names the one.

    `overrides` is set by desched's own annotation, which lifts mere preferences.
    """

    requests: bool = False
    forbids: bool = False
    overrides: bool = False
    detail: str = ""


_NONE = EvictionAnnotations()


def eviction_annotations(pod: Pod, workload: Workload | None, now: datetime) -> EvictionAnnotations:
    """Combine the annotations of the pod and its workload as they are now."""
    if (
        not pod.annotations
        and not (workload and workload.annotations)
        and (PREEMPTABLE not in pod.labels)
    ):
        return _NONE  # most pods
    annotations = {}
    for key, value, where in _all_of(pod, workload):
        forbids, detail = _FORBIDS[key](value.strip().lower()), f'{key}: "{value}" on {where}'
        if key == DO_NOT_DISRUPT_ANNOTATION and (ends := _protection_ends(value.strip(), pod)):
            forbids, detail = ends > now, f"{detail}, until {ends:%Y-%m-%d %H:%M} UTC"
        if key not in annotations or forbids:
            annotations[key] = EvictionAnnotations(
                not forbids, forbids, key == OWN_ANNOTATION, detail
            )
    if OWN_ANNOTATION in annotations:
        return annotations[OWN_ANNOTATION]
    forbidding = (annotation for annotation in annotations.values() if annotation.forbids)
    return next(forbidding, annotations.get(EVICT_ANNOTATION, _NONE))


def _all_of(pod: Pod, workload: Workload | None) -> Iterator[tuple[str, str, str]]:
    """The key, value and object of each annotation, those of the pod first."""
    on_pod: Mapping[str, str] = pod.annotations
    if PREEMPTABLE in pod.labels:
        on_pod = {PREEMPTABLE: pod.labels[PREEMPTABLE], **on_pod}
    for where, annotations in (
        ("the pod", on_pod),
        (workload, workload.annotations if workload else {}),
    ):
        for key in _FORBIDS:
            if key in annotations:
                yield key, annotations[key], str(where)
