"""The soft taints of a cycle: set before the evictions that need them, and removed."""

from datetime import timedelta

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.eviction.steering import Steering
from desched.lab.clock import VirtualClock
from desched.lab.demo import demo_policy
from desched.lab.scenarios import published_scenario, steering_scenario
from desched.model.cluster import PodRef
from desched.model.plan import PlannedEviction, PlannedTaint, TaintRemoval
from desched.model.report import CycleResult, EvictionVerdict, Mode, NotActing
from desched.model.state import State
from desched.ports import SteeringAnswer
from tests.builders import certain, policy

LASTING = timedelta(minutes=10)


class Nodes:
    """A Steerer that records its calls; `refuses` is the node that it cannot change."""

    def __init__(self, refuses=""):
        self.asked = []
        self._refuses = refuses

    def taint_all(self, nodes, until):
        self.asked += [(node, until) for node in nodes]
        return [
            SteeringAnswer(n != self._refuses, "it changed" * (n == self._refuses)) for n in nodes
        ]

    def untaint_all(self, nodes):
        return self.taint_all(nodes, None)


def steering(nodes, may_act=lambda: True):
    return Steering(nodes, VirtualClock(), may_act, LASTING)


def eviction(*steered):
    pod = PodRef("apps", "a", "uid-a")
    return PlannedEviction(
        pod, "hot", "w", "uid-w", 0, 1.0, 1.0, (), certain("cool"), 1, "reason", steered=steered
    )


def test_an_eviction_that_counts_on_taints_sets_them_each_once_with_an_end():
    nodes = Nodes()
    taints = steering(nodes)
    until = VirtualClock().now() + LASTING
    taints.set_standing([PlannedTaint("hot", "its load is high")])
    assert taints.steer(eviction("hot", "warm")) == ""
    assert nodes.asked == [("hot", until), ("warm", until)]
    assert [(c.node, c.tainted, c.done) for c in taints.changes] == [
        ("hot", True, True),
        ("warm", True, True),
    ]


def test_an_eviction_whose_taint_fails_is_told_why():
    taints = steering(Nodes(refuses="warm"))
    assert taints.steer(eviction("hot", "warm")) == "warm: it changed"
    (_, failed) = taints.changes
    assert (failed.node, failed.done, failed.detail) == ("warm", False, "it changed")
    assert failed.why == "it must not receive the replacement of apps/a"


def test_one_that_needs_no_taint_sets_none():
    nodes = Nodes()
    assert steering(nodes).steer(eviction()) == ""
    assert not nodes.asked


def test_taints_that_nothing_needs_are_taken_away():
    nodes = Nodes(refuses="b")
    taints = steering(nodes)
    taints.remove([TaintRemoval("a", "it has expired"), TaintRemoval("b", "steering is off")])
    assert nodes.asked == [("a", None), ("b", None)]
    assert [change.done for change in taints.changes] == [True, False]


def test_nothing_is_written_without_the_right_to_act():
    nodes = Nodes()
    taints = steering(nodes, may_act=lambda: False)
    taints.remove([TaintRemoval("a", "it has expired")])
    assert taints.steer(eviction("hot")) == "hot: leadership was lost"
    assert not nodes.asked


def test_a_dry_run_and_a_run_without_a_steerer_set_none():
    assert steering(None).steer(eviction("hot")) == "hot: this run sets no taints"


def test_a_cycle_takes_away_what_a_dead_instance_has_left_although_steering_is_off():
    simulation = published_scenario()
    simulation.steerer.taint("te1", simulation.clock.now() + LASTING)
    world = simulation.world(acting=True)
    report, _ = run_cycle(world, policy(), State(), CycleInfo(1, Mode.EVICT, "test"))
    assert [(c.node, c.tainted, c.why) for c in report.taints] == [
        ("te1", False, "steering is off")
    ]
    assert not world.cluster.read_cluster().node_by_name["te1"].avoided


def test_a_cycle_evicts_nothing_while_a_taint_stays_that_its_plan_counts_as_gone():
    simulation = published_scenario()
    simulation.clock.advance(3600)
    simulation.steerer.taint("te1", simulation.clock.now() + LASTING)
    world = simulation.world(acting=True)._replace(steerer=Nodes(refuses="te1"))
    report, _ = run_cycle(world, demo_policy(), State(), CycleInfo(1, Mode.EVICT, "test"))
    assert (report.result, report.not_acting) == (CycleResult.NOT_ACTING, NotActing.TAINT_STAYED)
    assert report.not_acting_detail == "te1: it changed"
    assert [outcome.verdict for outcome in report.outcomes] == [EvictionVerdict.NOT_BEGUN]


def run_of_trap(mode, may_steer):
    """A cycle where only soft taints let pods leave; returns the report and the asked rights."""
    simulation, asked = steering_scenario(), []

    def right():
        asked.append(mode)
        return may_steer

    world = simulation.world(acting=mode is Mode.EVICT)._replace(may_steer=right)
    report, _ = run_cycle(world, demo_policy(), State(), CycleInfo(1, mode, "test"))
    return report, asked


def test_with_the_right_it_evicts_what_taints_let_move():
    report, asked = run_of_trap(Mode.EVICT, may_steer=True)
    assert report.result is CycleResult.EVICTED
    assert report.plan.unsteered is None
    assert asked == [Mode.EVICT]


def test_without_the_right_it_sets_no_taint_and_reports_the_cost():
    report, asked = run_of_trap(Mode.EVICT, may_steer=False)
    assert report.taints == ()
    assert report.plan.unsteered is not None
    assert report.state.last_cycle is not None
    assert report.state.last_cycle.unsteered == report.plan.unsteered
    assert asked == [Mode.EVICT]


def test_a_dry_run_plans_with_taints_and_needs_no_right():
    report, asked = run_of_trap(Mode.DRY_RUN, may_steer=False)
    assert report.result is CycleResult.PLANNED
    assert report.plan.taints
    assert (report.plan.unsteered, asked) == (None, [])


def test_with_steering_off_the_right_is_not_looked_at():
    world = published_scenario().world(acting=True)
    asked = []

    def right():
        asked.append(1)
        return True

    world = world._replace(may_steer=right)
    run_cycle(world, policy(), State(), CycleInfo(1, Mode.EVICT, "test"))
    assert asked == []


def test_a_dry_run_leaves_taints_where_they_are():
    simulation = published_scenario()
    simulation.steerer.taint("te1", simulation.clock.now() + LASTING)
    world = simulation.world(acting=False)
    report, _ = run_cycle(world, policy(), State(), CycleInfo(1, Mode.DRY_RUN, "test"))
    assert report.taints == ()
    assert world.cluster.read_cluster().node_by_name["te1"].avoided
