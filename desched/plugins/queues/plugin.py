"""How queues take part in a decision."""

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import Rule
from desched.planning.plugins import Plugin
from desched.plugins.queues.keys import QueueKeys, QueueMode
from desched.plugins.queues.rule import requeued, waiting


class Queues(Plugin, frozen=True):
    """Keeps pods whose replacement could lose its share of a queue."""

    queues: QueueMode = QueueMode.RESPECT
    keys = QueueKeys

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Nothing else may wait in the queue of the pod, unless queues do not count."""
        if self.queues is QueueMode.IGNORE:
            return ()
        return (Rule(RefusalReason.QUEUE_BUSY, in_cluster=waiting, before=RefusalReason.PAUSED),)

    def after_eviction(self, pod: Pod, context: EligibilityContext) -> str:
        """In which queue the replacement waits again."""
        return requeued(pod, context)
