"""How GPUs take part in a decision."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from desched.model.cluster import ClusterState
from desched.model.plan import Plan, PlannedTaint, RefusalReason
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.eligibility.rules import Rule
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.overload.classification import Pressure
from desched.planning.placement.destinations import Destinations
from desched.planning.plugins import OtherMoves
from desched.planning.selection.limits import EvictionQuota
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.demands import is_due, wanted
from desched.plugins.gpus.drains.drain import (
    GPU_DEMAND,
    DrainPlan,
    Drains,
    drains_of,
    with_drains,
)
from desched.plugins.gpus.drains.holds import held_for_pods, held_nodes
from desched.plugins.gpus.drains.impossible_reserves import impossible_reserves
from desched.plugins.gpus.drains.ledger import judged
from desched.plugins.gpus.drains.planned import plan_drains
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.plugins.gpus.facts import ClusterGpus
from desched.plugins.gpus.keys import (
    GpuFragmentationArgs,
    GpuFragmentationConfig,
    GpuKeys,
    GpuPods,
    check_target,
    drain_settings,
    gpu_drain_rules,
)
from desched.plugins.gpus.limit import UnknownGpus
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.measurement import GPU_MEASURES
from desched.plugins.gpus.rules import GPU_PODS, SUMMED_DEVICES
from desched.plugins.gpus.survey import survey
from desched.plugins.gpus.views import GpuViews
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy
from desched.policy_keys.notes import Notes
from desched.promql.plugin import MeasuringPlugin


class Gpus(MeasuringPlugin, frozen=True):
    """Keeps pods with GPUs, drains nodes for what waits for some, and reports what is idle.

    Without `drains` nothing moves for what waits.
    """

    drains: GpuDrainRules | None = None
    gpu_pods: GpuPods = GpuPods.PROTECT
    decides = frozenset({RefusalReason.DEVICES_SUMMED})
    keys = GpuKeys
    in_profiles = GpuFragmentationConfig
    views = GpuViews()
    load = GpuLoad
    measures = GPU_MEASURES
    state = Drains
    purposes = (GPU_DEMAND,)

    def strict(self) -> "Gpus":
        """Return a copy with GPUs as any other resource."""
        return replace(self, gpu_pods=GpuPods.ALLOW)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Pods with parts of devices stay, and those with GPUs unless the policy allows them."""
        return (SUMMED_DEVICES, *((GPU_PODS,) if self.gpu_pods is GpuPods.PROTECT else ()))

    def enabled(self, args: GpuFragmentationArgs, notes: Notes) -> "Gpus":
        """Return a copy with the rules of these arguments."""
        return replace(self, drains=gpu_drain_rules(args, notes))

    def further_settings(self) -> Iterable[tuple[tuple[str, ...], str]]:
        """The rules of drains."""
        return drain_settings(self.drains) if self.drains is not None else ()

    def check(self, policy: Policy, notes: Notes) -> None:
        """Note that nothing is drained if no node may be held, and what a target for gpu lacks."""
        check_target(policy, self.gpu_pods, notes)
        if self.drains is not None and policy.steering.mode is SteeringMode.OFF:
            notes.refuse(
                "is Off, but GpuFragmentation holds the nodes that it drains with soft taints, and "
                "drains none without them; set steering: WhenNeeded.",
                "steering",
            )

    @property
    def moves_without_overload(self) -> bool:
        """Whether nodes may be drained."""
        return self.drains is not None

    @property
    def _reserves(self) -> tuple[Reserve, ...]:
        return self.drains.reserves if self.drains is not None else ()

    def node_labels(self, _: ClusterState) -> frozenset[str]:
        """The domains of reserves."""
        return frozenset(reserve.domain for reserve in self._reserves if reserve.domain)

    def follow_up(
        self, state: State, _: Sequence[EvictionRecord], context: EligibilityContext
    ) -> State:
        """The state with the drains that are over."""
        return with_drains(state, judged(context, self.drains))

    def is_due(self, context: EligibilityContext) -> bool:
        """Whether a drain is under way, or something waits for GPUs."""
        return self.drains is not None and is_due(context, self.drains)

    def sources(self, context: EligibilityContext, pressure: Pressure) -> Collection[str]:
        """The known nodes with GPUs, if something may be drained."""
        if self.drains is None or not wanted(context, self.drains):
            return ()
        known = pressure.known.items()
        return [name for name, loaded in known if whole_gpus(loaded.node.allocatable)]

    def held_nodes(self, context: EligibilityContext) -> Iterable[PlannedTaint]:
        """The nodes of drains under way, and those that are free for reserves."""
        return held_nodes(context, self.drains) if self.drains is not None else ()

    def held_for_pods(self, context: EligibilityContext) -> Mapping[str, Sequence[str]]:
        """The nodes of drains under way, for the pods that wait for their GPUs."""
        return held_for_pods(context)

    def placement_limit(self, context: EligibilityContext, arrays: NodeArrays) -> UnknownGpus:
        """No pod with GPUs lands where their load is unknown."""
        return UnknownGpus(context, arrays)

    def other_moves(
        self,
        eligibility: Eligibility,
        pressure: Pressure,
        destinations: Destinations,
        quota: EvictionQuota,
    ) -> OtherMoves:
        """The moves of drains."""
        if self.drains is None:
            return self.no_moves(eligibility.context.state)
        return plan_drains(self.drains, eligibility, pressure, destinations, quota)

    def no_moves(self, state: State) -> OtherMoves:
        """The drains go on."""
        return OtherMoves(extras=DrainPlan(drains_of(state)).extras)

    def keep(self, state: State, plan: Plan) -> State:
        """The state with the drains of the plan."""
        return with_drains(state, DrainPlan.of(plan.extras).drains)

    def facts(self, context: EligibilityContext, _: Plan) -> ClusterGpus | None:
        """What is idle of GPUs."""
        return survey(context)

    def warnings(self, policy: Policy, cluster: ClusterState) -> tuple[str, ...]:
        """The reserves that the nodes cannot give."""
        return impossible_reserves(self._reserves, policy, cluster)
