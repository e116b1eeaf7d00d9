"""The annotations that desched reads; the many others are not kept."""

from collections.abc import Mapping

PREFIXES = (
    "descheduler.alpha.kubernetes.io/",
    "desched.io/",
    "kubernetes.io/config.",
    "cluster-autoscaler.kubernetes.io/",
    "controller.kubernetes.io/",
    "gang.scheduling.koordinator.sh/",
    "karpenter.sh/",
    "scheduling.k8s.io/",
    "scheduling.koordinator.sh/",
    "scheduling.volcano.sh/",
    "volcano.sh/",
)
_ENCODED_PREFIXES = tuple(f'"{prefix}'.encode() for prefix in PREFIXES)
_ESCAPES = (b"\\u", b"\\/")


def relevant(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Those that desched reads."""
    return {key: value for key, value in (annotations or {}).items() if key.startswith(PREFIXES)}


def may_be_relevant(encoded: bytes) -> bool:
    """Whether JSON text can hold one of them; false spares decoding it.

    An escaped letter or slash could hide one, so that text with them always may.
    """
    return any(part in encoded for part in _ENCODED_PREFIXES + _ESCAPES)
