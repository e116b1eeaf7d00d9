"""What a plugin may add to a decision.

A policy has its plugins in the order in which they take part (`Policy.plugins`). Each method of
`Plugin` is one place of the decision where they are asked; by default a plugin adds nothing there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Node, Pod, PodVolume
from desched.model.extras import Extras, PluginPlan, PluginState
from desched.model.facts import Facts
from desched.model.load import DeviceLoad
from desched.model.names import Mark
from desched.model.plan import Finding, Plan, PlannedTaint, RefusalReason
from desched.model.snapshot import FreshPod
from desched.model.state import EvictionRecord, State
from desched.planning.plugin_settings import PluginSettings
from desched.policy.policy import Policy
from desched.policy.schedulers import OtherScheduler, SchedulerProfile
from desched.wording.plugin_views import PluginViews

if TYPE_CHECKING:  # most of what a plugin gets is defined above this module
    from desched.eviction.requests import Attempt, Requests
    from desched.planning.arrays import Floats, Mask
    from desched.planning.eligibility.context import EligibilityContext
    from desched.planning.eligibility.eligibility import Eligibility
    from desched.planning.eligibility.rules import Rule
    from desched.planning.kube_scheduler.node_arrays import NodeArrays
    from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
    from desched.planning.overload.classification import Pressure
    from desched.planning.placement.destinations import Destinations
    from desched.planning.placement.free_capacity import FreeCapacity
    from desched.planning.selection.candidates import OverloadedNode
    from desched.planning.selection.limits import EvictionQuota, LimitUse
    from desched.planning.selection.outcomes import Chosen, NodeSelection


class PlacementLimit(ABC):
    """Where a pod must not land, though the scheduler would place it there.

    `words` say it of nodes, such as "node(s) are in another rack". A pod that stays for nothing
    else has the `reason`; without one, that no node is under its ceiling.
    """

    words: ClassVar[str]
    reason: ClassVar[RefusalReason | None] = None

    @abstractmethod
    def outside(self, pod: Pod) -> "Mask":
        """The nodes that must not take the pod. Do not modify."""

    def reason_for(self, pod: Pod) -> RefusalReason | None:
        """The reason of this pod, for a limit that has several."""
        return self.reason

    def describe(self, pod: Pod) -> str:
        """What limits the pod, for a limit with a reason."""
        return ""

    def never_chosen(self, pod: Pod) -> "Mask":
        """Of these nodes, those where the scheduler of the pod never puts it by itself."""
        return np.zeros_like(self.outside(pod))

    def relaxed(self, pod: Pod) -> "PlacementLimit | None":
        """The next looser limit, if the pod finds no place; None if there is no other."""
        return None

    def extra_cost(self, pod: Pod) -> float:
        """What a move costs more because this limit is a relaxed one; 1 is an eviction."""
        return 0.0

    def of_pods_together(
        self, pods: Sequence[Pod], free: "FreeCapacity"
    ) -> "PlacementLimit | Finding[RefusalReason]":
        """The limit of pods that leave together, or why that is not known.

        `free` is what is free without them.
        """
        return self


class Relief(ABC):
    """Relieves nodes in one plan that no single moves of their pods relieve."""

    @abstractmethod
    def relieve(self, node: "OverloadedNode", stuck: "NodeSelection") -> "NodeSelection":
        """The selection with moves, or with further reasons why pods stay.

        `stuck` is the state after the moves for nodes before, and is not modified.
        """


class ScoreBounds(NamedTuple):
    """The lowest and the highest score of each node, each of shape (alternatives or 1, nodes).

    Those of nodes that are not feasible mean nothing.
    """

    least: "Floats"
    most: "Floats"


class OtherScores(NamedTuple):
    """How a scheduler beside kube-scheduler scores the nodes where the replacement of a pod fits.

    `samples` if it scores only as many of them as kube-scheduler would.
    """

    bounds: "Callable[[LeavingPod, SchedulerView, Mask, OtherScheduler], ScoreBounds]"
    samples: bool


class OtherMove(msgspec.Struct, frozen=True):
    """A move that relieves no overloaded node; `says` are fields of its `PlannedEviction`."""

    chosen: "Chosen"
    says: Mapping[str, Any]


class OtherMoves(msgspec.Struct, frozen=True):
    """Moves of plugins, and the `extras` of the plan."""

    moves: tuple[OtherMove, ...] = ()
    extras: Mapping[str, PluginPlan] = {}


class Plugin(PluginSettings, frozen=True):
    """Takes part in decisions; all methods are pure. A value, so that policies can be compared.

    For the reasons that it `decides`, rules of desched that keep all such pods count no more.
    `scores` are those of schedulers beside kube-scheduler. `annotations` are those that it reads of
    pods, workloads and PodGroups, with what their values name, `labels` those of pods. `views` are
    what people and programs see of it. `state` is the type of what it keeps from cycle to cycle,
    `purposes` are those of its moves. `load` is the type of the load that it measures.
    """

    decides: ClassVar[frozenset[RefusalReason]] = frozenset()
    scores: ClassVar[Mapping[SchedulerProfile, OtherScores]] = {}
    annotations: ClassVar[Mapping[str, Mark]] = {}
    labels: ClassVar[frozenset[str]] = frozenset()
    views: ClassVar[PluginViews] = PluginViews()
    load: ClassVar[type[DeviceLoad] | None] = None
    state: ClassVar[type[PluginState] | None] = None
    purposes: ClassVar[tuple[str, ...]] = ()

    def node_labels(self, cluster: ClusterState) -> Iterable[str]:
        """The labels of nodes that it reads: its settings or other objects name them."""
        return ()

    def read_again(self, seen: ClusterState, looks: Sequence[FreshPod]) -> Extras:
        """Its objects with what was read again just before the eviction of these pods."""
        return {}

    def node_domains(self, key: str, cluster: ClusterState) -> Callable[[Node], str | None] | None:
        """The domain of each node on the level that the key names; None if it knows no such level.

        A node that is in none, or of which that is not known, has None.
        """
        return None

    @property
    def rules(self) -> "tuple[Rule, ...]":
        """Further rules of eligibility."""
        return ()

    def warnings(self, policy: Policy, cluster: ClusterState) -> tuple[str, ...]:
        """What the policy asks of the plugin that cannot be had in this cluster."""
        return ()

    def takes_over(self, pod: Pod) -> bool:
        """Whether another controller answers the eviction of the pod, and moves it itself."""
        return False

    def is_placed_together(self, pod: Pod, context: "EligibilityContext") -> bool:
        """Whether the scheduler of the pod places it with others or not at all."""
        return False

    def has_copies(self, pod: Pod, volume: PodVolume, context: "EligibilityContext") -> bool:
        """Whether its nodes hold copies of this local volume, so that it does not bind the pod.

        The `placement_limit` of the plugin then keeps the pod on nodes with a copy.
        """
        return False

    def quota_uses(self, pod: Pod, context: "EligibilityContext") -> "Iterable[LimitUse]":
        """What counts against limits if the pod is evicted."""
        return ()

    def extra_cost(self, pod: Pod, context: "EligibilityContext") -> float:
        """What the eviction of the pod costs more than that of others; 1 is an eviction."""
        return 0.0

    def remedies(
        self, reason: RefusalReason, pod: Pod, context: "EligibilityContext"
    ) -> Iterable[str]:
        """Further sentences about what would have to change for a pod with this reason."""
        return ()

    def under_way(
        self, context: "EligibilityContext", state: State
    ) -> Mapping[tuple[str, str], int]:
        """What counts against these limits before the first eviction, by their keys."""
        return {}

    def after_eviction(self, pod: Pod, context: "EligibilityContext") -> str:
        """What is known of the replacement of the pod if it is evicted; empty if nothing."""
        return ""

    def follow_up(
        self, state: State, settled: Sequence[EvictionRecord], context: "EligibilityContext"
    ) -> State:
        """The state after a look at what became of earlier moves; `context` is before.

        `settled` are those whose result is new.
        """
        return state

    def is_due(self, context: "EligibilityContext") -> bool:
        """Whether there is anything to move although no node is overloaded."""
        return False

    def sources(self, context: "EligibilityContext", pressure: "Pressure") -> Collection[str]:
        """The nodes that other moves may leave: the usage of their pods is needed."""
        return ()

    def companions(self, nodes: Collection[str], context: "EligibilityContext") -> Iterable[Pod]:
        """The pods, wherever they are, that may leave with pods of these nodes.

        Their usage is needed.
        """
        return ()

    def held_nodes(self, context: "EligibilityContext") -> Iterable[PlannedTaint]:
        """The nodes that other pods are kept off, with the reason."""
        return ()

    def held_for_pods(self, context: "EligibilityContext") -> Mapping[str, Sequence[str]]:
        """The nodes that are held for pods that wait, by the pod's uid.

        A pod without any waits for others: nothing is reserved for it.
        """
        return {}

    def placement_limit(
        self, context: "EligibilityContext", arrays: "NodeArrays"
    ) -> PlacementLimit | None:
        """A limit on where pods may land."""
        return None

    def relief(self, eligibility: "Eligibility", pressure: "Pressure") -> Relief | None:
        """What may relieve nodes that single moves do not, for one plan."""
        return None

    def other_moves(
        self,
        eligibility: "Eligibility",
        pressure: "Pressure",
        destinations: "Destinations",
        quota: "EvictionQuota",
    ) -> OtherMoves:
        """The moves after those that relieve nodes; the arguments are not modified."""
        return self.no_moves(eligibility.context.state)

    def no_moves(self, state: State) -> OtherMoves:
        """What the plan says if nothing may move."""
        return OtherMoves()

    def evict_together(self, attempts: "Sequence[Attempt]", requests: "Requests") -> str | None:
        """Evict pods that leave together or not at all.

        Returns why the cycle ends, empty if it goes on, and None if these pods are not of the
        plugin. Pods of no plugin are judged one by one.
        """
        return None

    def keep(self, state: State, plan: Plan) -> State:
        """The state with what the next cycle must know of the plan."""
        return state

    def facts(self, context: "EligibilityContext", plan: Plan) -> Facts | None:
        """What was observed, for the report; None if there is nothing."""
        return None


def scores_of_others(plugins: Iterable[Plugin]) -> Mapping[SchedulerProfile, OtherScores]:
    """How schedulers beside kube-scheduler score nodes, as far as plugins know."""
    return {profile: scores for plugin in plugins for profile, scores in plugin.scores.items()}


def held_for_pods(context: "EligibilityContext") -> Mapping[str, Sequence[str]]:
    """The nodes that plugins hold for pods that wait, by the pod's uid."""
    held = (plugin.held_for_pods(context) for plugin in context.policy.plugins)
    return {uid: nodes for by_uid in held for uid, nodes in by_uid.items()}


def held_nodes(context: "EligibilityContext") -> Iterator[PlannedTaint]:
    """The nodes that plugins keep other pods off."""
    for plugin in context.policy.plugins:
        yield from plugin.held_nodes(context)
