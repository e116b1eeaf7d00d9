"""How gangs take part in a decision."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from desched.api_objects.plugin_kinds import ReadingPlugin, SystemRights
from desched.eviction.requests import Attempt, Requests
from desched.gangs.members import gang_members, gangs_of
from desched.gangs.objects import GangObjects
from desched.model.cluster import ClusterState, Pod
from desched.model.extras import Extras
from desched.model.plan import Plan, RefusalReason
from desched.model.snapshot import FreshPod
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.controllers import VOLCANO_JOB_KIND
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.eligibility.rules import Rule, rules_of
from desched.planning.overload.classification import Pressure
from desched.planning.selection.limits import LimitUse
from desched.plugins.gangs.broken import with_broken_gangs
from desched.plugins.gangs.evictions import move_whole
from desched.plugins.gangs.facts import GangFacts
from desched.plugins.gangs.keys import GangKeys, GangMode, VolcanoJobs
from desched.plugins.gangs.kinds import GANG_KINDS, RIGHTS_WITH_JOBS
from desched.plugins.gangs.minimum import needed, surpluses
from desched.plugins.gangs.moves import WholeMoves
from desched.plugins.gangs.spread import gang_spreads
from desched.plugins.gangs.views import GangViews
from desched.plugins.gangs.whole_gangs import kept
from desched.policy.policy import Policy
from desched.policy.share import Share
from desched.policy_keys.notes import Notes


class Gangs(ReadingPlugin, frozen=True):
    """Keeps the pods that a gang needs, and moves a gang whole if the policy allows it."""

    gang_mode: GangMode = GangMode.SURPLUS
    volcano_jobs: VolcanoJobs = VolcanoJobs.STAY
    keys = GangKeys
    kinds = GANG_KINDS
    decides = frozenset({RefusalReason.POD_GROUP})
    views = GangViews()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """A gang keeps the pods that it needs."""
        rule = kept if self._moves_whole else needed
        return (Rule(RefusalReason.POD_GROUP, in_cluster=rule, before=RefusalReason.BARE_POD),)

    @property
    def _moves_whole(self) -> bool:
        return self.gang_mode is GangMode.WHOLE

    @property
    def owner_kinds(self) -> frozenset[str]:
        """Volcano Jobs, if the policy lets their pods move."""
        return frozenset({VOLCANO_JOB_KIND} if self.volcano_jobs is VolcanoJobs.SURPLUS else ())

    @property
    def rights(self) -> SystemRights:
        """Those for Volcano Jobs only if the policy lets their pods move."""
        return RIGHTS_WITH_JOBS if self.owner_kinds else self.kinds.rights

    def read_again(self, _: ClusterState, looks: Sequence[FreshPod]) -> Extras:
        """What the objects of the gangs of the last pod say now; others are not known."""
        return {GangObjects.plugin: GangObjects.of(looks[-1].extras)}

    def check(self, policy: Policy, notes: Notes) -> None:
        """Note what keeps gangs that may move whole."""
        if not self._moves_whole:
            return
        if any(rule.reason is RefusalReason.GPU_POD for rule in rules_of(policy.plugins)):
            notes.warn(
                "is Whole, but gpuPods: Protect keeps each gang with GPUs; set gpuPods: Allow, or "
                'annotate their pods with desched.io/evict: "true".',
                "gangMode",
            )
        hourly = policy.limits.workload_hourly
        if isinstance(hourly, Share) and hourly.ratio < 1:
            notes.warn(
                f"is Whole, but evictionLimits.workloadHourly lets {hourly.ratio:.0%} of a "
                "workload's replicas move within an hour, so a gang with more of them stays; "
                '"100%" lets it move.',
                "gangMode",
            )

    def quota_uses(self, pod: Pod, context: EligibilityContext) -> Iterable[LimitUse]:
        """The pods that each gang of the pod can spare."""
        return surpluses(pod, context)

    def companions(self, nodes: Collection[str], context: EligibilityContext) -> Iterator[Pod]:
        """The pods of gangs that may leave one of these nodes whole."""
        if not self._moves_whole:
            return
        pods = (pod for node in nodes for pod in context.cluster.pods_by_node[node])
        for key in {group.key for pod in pods for group in gangs_of(pod, context)}:
            yield from context.derived(gang_members)[key]

    def relief(self, eligibility: Eligibility, pressure: Pressure) -> WholeMoves | None:
        """Moves of whole gangs."""
        return WholeMoves(eligibility, pressure) if self._moves_whole else None

    def evict_together(self, attempts: Sequence[Attempt], requests: Requests) -> str | None:
        """Evict all pods of a gang or none."""
        return move_whole(attempts, requests)

    def follow_up(
        self, state: State, settled: Sequence[EvictionRecord], context: EligibilityContext
    ) -> State:
        """Pause the workloads of gangs that broke."""
        return with_broken_gangs(state, settled, context.policy.follow_up, context.now)

    def facts(self, context: EligibilityContext, plan: Plan) -> GangFacts:
        """How far apart the pods of each gang are."""
        return GangFacts(gang_spreads(context, plan.nodes))
