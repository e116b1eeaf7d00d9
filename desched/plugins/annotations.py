"""The annotations of pods, workloads and PodGroups that desched reads; no other is kept."""

from collections.abc import Mapping

from desched.gangs.pod_groups import GROUP_KEYS
from desched.model.checkpoints import CHECKPOINTS
from desched.model.names import Mark
from desched.model.networks import INTERFACES
from desched.planning.eligibility.annotations import EVICTION_ANNOTATIONS, PREEMPTABLE
from desched.planning.eligibility.rules import COOLDOWN_TIME, MIRROR_ANNOTATION, SOURCE_ANNOTATION
from desched.planning.selection.eviction_cost import (
    DELETION_COST_ANNOTATION,
    DISRUPTION_COST_ANNOTATION,
)
from desched.plugins import HOUSE

MARKS: Mapping[str, Mark] = {
    key: mark for plugin in HOUSE for key, mark in plugin.annotations.items()
}
"""What the values of the annotations of plugins name."""

ANNOTATIONS = frozenset(
    {
        *EVICTION_ANNOTATIONS,
        *GROUP_KEYS,
        PREEMPTABLE,
        COOLDOWN_TIME,
        INTERFACES,
        CHECKPOINTS,
        DELETION_COST_ANNOTATION,
        DISRUPTION_COST_ANNOTATION,
        MIRROR_ANNOTATION,
        SOURCE_ANNOTATION,
        *MARKS,
    }
)

LABELS = frozenset(label for plugin in HOUSE for label in plugin.labels)
"""The labels of pods that plugins read."""
