"""Parts of metadata that matter: the controller, and the annotations that desched reads."""

from collections.abc import Iterable, Mapping

from desched.adapters.kubernetes.client.api_types.metadata import OwnerReference
from desched.model.cluster import Owner

PREFIXES = (
    "descheduler.alpha.kubernetes.io/",
    "desched.io/",
    "kubernetes.io/config.",
    "cluster-autoscaler.kubernetes.io/",
    "controller.kubernetes.io/",
    "gang.scheduling.koordinator.sh/",
    "gpu-fraction",
    "gpu-memory",
    "internal.serving.kserve.io/localmodel-pvc-name",
    "karpenter.sh/",
    "kueue.x-k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
    "networking.gke.io/interfaces",
    "pod-group-name",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.k8s.io/",
    "scheduling.koordinator.sh/",
    "scheduling.volcano.sh/",
    "volcano.sh/",
)
LONGEST_ANNOTATION = 2048
"""Characters of an annotation's value that are kept."""

_ENCODED_PREFIXES = tuple(f'"{prefix}'.encode() for prefix in PREFIXES)
_ESCAPES = (b"\\u", b"\\/")


def relevant_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """The annotations that desched reads; the many others are not kept.

    The end of a very long value is not kept either: no value that means anything is so long.
    """
    return {
        key: value[:LONGEST_ANNOTATION]
        for key, value in (annotations or {}).items()
        if key.startswith(PREFIXES)
    }


def may_be_relevant(encoded: bytes) -> bool:
    """Whether JSON text can contain such an annotation; if not, it need not be decoded.

    An escaped letter or slash could hide one, so text with an escape always may.
    """
    return any(part in encoded for part in _ENCODED_PREFIXES + _ESCAPES)


def controller_of(owners: Iterable[OwnerReference] | None) -> Owner | None:
    """The one owner that controls the object."""
    found = (owner for owner in owners or () if owner.controller)
    return next((Owner(o.kind, o.name, o.uid, o.api_version) for o in found), None)
