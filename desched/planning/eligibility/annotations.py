"""Eviction annotations on a pod and its workload, and their precedence.

1. `desched.io/evict` overrides all others: "true" requests a move, any other value forbids it.
2. Among the annotations of other projects, one that forbids wins over one that requests.
3. An annotation on a workload applies to all of its pods. If pod and workload differ, the one that
   forbids wins. A value that is not understood forbids.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from desched.model.cluster import Pod, Workload
from desched.model.pod_groups import PREEMPTABLE
from desched.model.text import TRUE

OWN_ANNOTATION = "desched.io/evict"
EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT_ANNOTATION = "karpenter.sh/do-not-disrupt"
EVICTION_COST_ANNOTATION = "scheduling.koordinator.sh/eviction-cost"
FORBIDDING_COST = 2**31 - 1
_FALSE = frozenset({"false", "f", "0"})


def _is_forbidding_cost(value: str) -> bool:
    try:
        return int(value) >= FORBIDDING_COST
    except ValueError:
        return True


_FORBIDS: Mapping[str, Callable[[str], bool]] = {
    OWN_ANNOTATION: lambda value: value not in TRUE,
    EVICT_ANNOTATION: lambda value: bool(value) and value not in TRUE,  # often without a value
    SAFE_TO_EVICT_ANNOTATION: lambda value: value not in TRUE,
    DO_NOT_DISRUPT_ANNOTATION: lambda value: value not in _FALSE,
    PREEMPTABLE: lambda value: value not in TRUE,
    EVICTION_COST_ANNOTATION: _is_forbidding_cost,
}

EVICTION_ANNOTATIONS = (*_FORBIDS, PREFER_NO_EVICTION_ANNOTATION)
"""All annotations about evictions that desched reads."""


class EvictionAnnotations(msgspec.Struct, frozen=True, gc=False):
    """Whether annotations request or forbid the eviction of a pod; `detail` names the one.

    `overrides` is set by desched's own annotation, which lifts mere preferences.
    """

    requests: bool = False
    forbids: bool = False
    overrides: bool = False
    detail: str = ""


_NONE = EvictionAnnotations()


def eviction_annotations(pod: Pod, workload: Workload | None) -> EvictionAnnotations:
    """Combine the annotations of the pod and its workload."""
    if (
        not pod.annotations
        and not (workload and workload.annotations)
        and (PREEMPTABLE not in pod.labels)
    ):
        return _NONE  # most pods
    found = {}
    for key, value, where in _all_of(pod, workload):
        forbids = _FORBIDS[key](value.strip().lower())
        if key not in found or forbids:
            own = key == OWN_ANNOTATION
            found[key] = EvictionAnnotations(
                not forbids, forbids, own, f'{key}: "{value}" on {where}'
            )
    if OWN_ANNOTATION in found:
        return found[OWN_ANNOTATION]
    forbidding = (each for each in found.values() if each.forbids)
    return next(forbidding, found.get(EVICT_ANNOTATION, _NONE))


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
