"""How queues take part in a decision."""

from typing import ClassVar

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import Rule
from desched.planning.plugins import Plugin
from desched.plugins.queues.rule import requeued, waiting


class Queues(Plugin, frozen=True):
    """Keeps pods whose replacement could lose its share of a queue."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(RefusalReason.QUEUE_BUSY, in_cluster=waiting, before=RefusalReason.PAUSED),
    )

    def after_eviction(self, pod: Pod, context: EligibilityContext) -> str:
        """In which queue the replacement waits again."""
        return requeued(pod, context)
