"""What annotations on a pod and its workload say about moving it, and which of them wins.

1. `desched.io/evict` decides alone where it stands: "true" asks for a move, all else forbids it.
2. Of the field's annotations, one that forbids wins over one that asks.
3. What stands on a workload holds for all of its pods; where pod and workload disagree, the one
   that forbids wins. A value that cannot be understood forbids.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from desched.model.cluster import Pod, Workload

OWN_ANNOTATION = "desched.io/evict"
EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT_ANNOTATION = "karpenter.sh/do-not-disrupt"
EVICTION_COST_ANNOTATION = "scheduling.koordinator.sh/eviction-cost"
PREEMPTABLE = "volcano.sh/preemptable"
"""Volcano reads the annotation and, where a pod has none, the label of the same name."""

FORBIDDING_COST = 2**31 - 1
_TRUE = frozenset({"true", "t", "1"})
_FALSE = frozenset({"false", "f", "0"})


def _is_forbidding_cost(value: str) -> bool:
    try:
        return int(value) >= FORBIDDING_COST
    except ValueError:
        return True


_FORBIDS: Mapping[str, Callable[[str], bool]] = {
    OWN_ANNOTATION: lambda value: value not in _TRUE,
    EVICT_ANNOTATION: lambda value: value == "false",
    SAFE_TO_EVICT_ANNOTATION: lambda value: value not in _TRUE,
    DO_NOT_DISRUPT_ANNOTATION: lambda value: value not in _FALSE,
    PREEMPTABLE: lambda value: value not in _TRUE,
    EVICTION_COST_ANNOTATION: _is_forbidding_cost,
}


class EvictionAnnotations(msgspec.Struct, frozen=True, gc=False):
    """What was said, and where; with neither flag nothing was.

    `overrides` is set by desched's own annotation, which lifts what others only prefer.
    """

    asks: bool = False
    forbids: bool = False
    overrides: bool = False
    detail: str = ""


_NOTHING_SAID = EvictionAnnotations()


def eviction_annotations(pod: Pod, workload: Workload | None) -> EvictionAnnotations:
    """What the annotations of both say together."""
    if (
        not pod.annotations
        and not (workload and workload.annotations)
        and (PREEMPTABLE not in pod.labels)
    ):
        return _NOTHING_SAID  # by far the most pods
    said = {}
    for key, value, where in _words(pod, workload):
        forbids = _FORBIDS[key](value.strip().lower())
        if key not in said or forbids:
            own = key == OWN_ANNOTATION
            said[key] = EvictionAnnotations(
                not forbids, forbids, own, f'{key}: "{value}" on {where}'
            )
    if OWN_ANNOTATION in said:
        return said[OWN_ANNOTATION]
    forbidding = (consent for consent in said.values() if consent.forbids)
    return next(forbidding, said.get(EVICT_ANNOTATION, _NOTHING_SAID))


def _words(pod: Pod, workload: Workload | None) -> Iterator[tuple[str, str, str]]:
    """Key, value and place of everything that is said, the pod's own first."""
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
