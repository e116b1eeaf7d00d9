"""The annotations of pods, workloads and PodGroups that desched reads; no other is kept."""

from desched.model.checkpoints import CHECKPOINTS
from desched.model.devices import INTERFACES
from desched.model.model_caches import KSERVE_CLAIM
from desched.model.pod_groups import GROUP_KEYS, PREEMPTABLE
from desched.planning.eligibility.annotations import EVICTION_ANNOTATIONS
from desched.planning.eligibility.rules import COOLDOWN_TIME, MIRROR_ANNOTATION, SOURCE_ANNOTATION
from desched.planning.selection.eviction_cost import (
    DELETION_COST_ANNOTATION,
    DISRUPTION_COST_ANNOTATION,
)
from desched.plugins import HOUSE

ANNOTATIONS = frozenset(
    {
        *EVICTION_ANNOTATIONS,
        *GROUP_KEYS,
        PREEMPTABLE,
        COOLDOWN_TIME,
        INTERFACES,
        CHECKPOINTS,
        KSERVE_CLAIM,
        DELETION_COST_ANNOTATION,
        DISRUPTION_COST_ANNOTATION,
        MIRROR_ANNOTATION,
        SOURCE_ANNOTATION,
        *(annotation for plugin in HOUSE for annotation in plugin.annotations),
    }
)

LABELS = frozenset(label for plugin in HOUSE for label in plugin.labels)
"""The labels of pods that plugins read."""
