"""The room on nodes before the first move of a plan."""

from typing import NamedTuple

from desched.planning.eligibility.context import EligibilityContext
from desched.planning.inflow import Inflow
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import Pressure
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_limits import LandingFeedback
from desched.planning.placement.reservations import room_left
from desched.planning.placement.steering import Steerable
from desched.planning.plugins import held_nodes, scores_of_others


class StartingRoom(NamedTuple):
    """The free capacity that nothing has reserved, and what landings on it depend on."""

    free: FreeCapacity
    view: SchedulerView
    max_landing_risk: float
    feedback: LandingFeedback

    @classmethod
    def of(cls, context: EligibilityContext, pressure: Pressure) -> "StartingRoom":
        """The room after reservations for what is under way; at least one node must be known."""
        policy, free = context.policy, room_left(context, pressure)
        for taint in held_nodes(context):
            if taint.node in free.arrays.index:
                free.load.hold(taint.node)
        return cls(
            free,
            SchedulerView(
                context.cluster, policy.scheduler, scores_of_others(policy.plugins), free.index
            ),
            policy.max_landing_risk,
            LandingFeedback.of(context),
        )

    def destinations(self, steerable: Steerable, inflow: Inflow) -> Destinations:
        """The destinations before the first move, with these nodes that may get soft taints."""
        return Destinations(
            self.free, self.view, self.max_landing_risk, steerable, self.feedback, inflow
        )
