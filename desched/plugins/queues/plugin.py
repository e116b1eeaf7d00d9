"""How queues take part in a decision."""

from collections.abc import Sequence

from desched.api_objects.plugin_kinds import ReadingPlugin
from desched.model.cluster import ClusterState, Pod
from desched.model.extras import Extras
from desched.model.plan import RefusalReason
from desched.model.snapshot import FreshPod
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import Rule
from desched.plugins.queues.keys import QueueKeys, QueueMode
from desched.plugins.queues.kinds import QUEUE_KINDS
from desched.plugins.queues.objects import KAI_QUEUE, MANAGED, QUEUE_NAME, QueueObjects
from desched.plugins.queues.rule import requeued, waiting


class Queues(ReadingPlugin, frozen=True):
    """Keeps pods whose replacement could lose its share of a queue."""

    queues: QueueMode = QueueMode.RESPECT
    keys = QueueKeys
    kinds = QUEUE_KINDS
    labels = frozenset({MANAGED, QUEUE_NAME, KAI_QUEUE})

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Nothing else may wait in the queue of the pod, unless queues do not count."""
        if self.queues is QueueMode.IGNORE:
            return ()
        return (Rule(RefusalReason.QUEUE_BUSY, in_cluster=waiting, before=RefusalReason.PAUSED),)

    def read_again(self, seen: ClusterState, looks: Sequence[FreshPod]) -> Extras:
        """The queues of Kueue as they are now."""
        return QueueObjects.of(seen.extras).read_again(looks)

    @property
    def why_unread(self) -> str:
        """They count only if the policy respects them."""
        is_off = self.queues is QueueMode.IGNORE
        return "The policy lets pods move whatever waits in their queue." if is_off else ""

    def after_eviction(self, pod: Pod, context: EligibilityContext) -> str:
        """In which queue the replacement waits again."""
        return requeued(pod, context)
