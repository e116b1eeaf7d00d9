from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.cycle_report import CycleInfo
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.lab.demo import demo_policy
from desched.lab.scenarios import published_scenario
from desched.model.plan import HoldReason
from desched.model.report import CycleResult, Mode
from desched.model.state import Pause, PauseScope, SkippedCycles, State
from desched.policy.policy import PriorityThreshold
from desched.policy_file.loading import LoadedPolicy
from desched.service.cycles.runner import CycleRunner
from desched.service.inputs.policy_file import PolicyFile
from desched.service.inputs.state_keeper import StateKeeper
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore

POLICY = demo_policy()


def with_unknown_class(policy):
    return msgspec.structs.replace(
        policy,
        digest="with-unknown-class",
        protections=msgspec.structs.replace(
            policy.protections, priority_threshold=PriorityThreshold(class_name="no-such-class")
        ),
    )


class Editor:
    """A policy file in memory."""

    def __init__(self, policy):
        self.policy = policy

    def load(self):
        return LoadedPolicy(self.policy, ())


@pytest.fixture
def editor():
    return Editor(POLICY)


@pytest.fixture
def simulation():
    return published_scenario()


def runner_for(simulation, editor, mode=Mode.EVICT, store=None, cluster=None):
    world = simulation.world(acting=mode is Mode.EVICT)
    world = world._replace(cluster=cluster or world.cluster)
    may_write = (lambda: True) if mode is Mode.EVICT else None
    store = SimulatedStateStore(store or SimulatedConfigMap())
    state = StateKeeper(store, world.clock, State(), may_write)
    info = CycleInfo(0, mode, "simulated")
    return CycleRunner(world, PolicyFile(editor.load), state, info)


def test_a_report_goes_to_every_sink_and_cycles_are_numbered(simulation, editor):
    first: list[Any] = []
    second: list[Any] = []
    runner = runner_for(simulation, editor, Mode.DRY_RUN)
    runner.on_report(first.append, second.append)
    reports = [runner.run(), runner.run()]
    assert first == second == reports
    assert [report.cycle for report in reports] == [1, 2]
    assert {report.target for report in reports} == {"simulated"}


def test_the_next_cycle_gets_the_state_of_the_last_one(simulation, editor):
    runner = runner_for(simulation, editor)
    assert runner.run().result is CycleResult.EVICTED
    simulation.clock.advance(60)
    assert runner.run().outcomes == ()


def test_the_state_keeps_what_the_last_edit_of_the_policy_changed(simulation, editor):
    runner = runner_for(simulation, editor)
    assert runner.run().state.last_cycle.edit is None
    editor.policy = msgspec.structs.replace(POLICY, digest="edited", max_landing_risk=0.05)
    runner.read_edit()
    edited_at = simulation.clock.now()
    simulation.clock.advance(300)
    (change,) = (edit := runner.run().state.last_cycle.edit).changes
    assert edit.at == edited_at
    assert change.endswith("→ 0.05")
    simulation.clock.advance(300)
    assert runner.run().state.last_cycle.edit == edit


def test_a_first_policy_that_does_not_suit_the_cluster_is_refused(simulation, editor):
    editor.policy = with_unknown_class(POLICY)
    with pytest.raises(ConfigurationError, match="no-such-class"):
        runner_for(simulation, editor, Mode.DRY_RUN).run()


def test_a_later_one_gives_way_to_the_last_good_policy(simulation, editor):
    told: list[Any] = []
    runner = runner_for(simulation, editor, Mode.DRY_RUN)
    runner.on_policy(told.append)
    runner.run()
    editor.policy = with_unknown_class(POLICY)
    assert runner.run().result is CycleResult.PLANNED
    assert [bool(reading.problem) for reading in told] == [False, True]
    assert told[1].news
    assert told[1].policy == POLICY


def test_the_state_keeps_why_the_newest_edit_is_not_in_force(simulation, editor):
    runner = runner_for(simulation, editor)
    assert runner.run().state.last_cycle.refused_edit == ""
    editor.policy = with_unknown_class(POLICY)
    assert "no-such-class" in runner.run().state.last_cycle.refused_edit
    editor.policy = POLICY
    assert runner.run().state.last_cycle.refused_edit == ""


@pytest.mark.parametrize("source", ObservationSource)
def test_the_state_keeps_since_when_and_why_the_load_could_not_be_read(
    simulation, editor, source, mocker
):
    """Where the API server failed, nothing is asked of it."""
    place = SimulatedConfigMap()
    runner = runner_for(simulation, editor, store=place)
    runner.run()
    simulation.clock.advance(300)
    since = simulation.clock.now()
    fails = mocker.patch("desched.service.cycles.runner.run_cycle", autospec=True)
    for why in ("It is away.", "It is away.", "It is slow."):
        fails.side_effect = ObservationError(source, why)
        with pytest.raises(ObservationError):
            runner.run()
        simulation.clock.advance(300)
    stored = SimulatedStateStore(place).load().state
    assert stored is not None
    expected = SkippedCycles(since, "It is slow.")
    assert stored.skipped == (expected if source is ObservationSource.PROMETHEUS else None)

    mocker.stopall()
    assert runner.run().state.skipped is None


def test_an_edit_between_cycles_is_told_once_and_the_next_cycle_uses_it(simulation, editor):
    told: list[Any] = []
    runner = runner_for(simulation, editor, Mode.DRY_RUN)
    runner.on_policy(told.append)
    runner.run()
    runner.read_edit()
    assert len(told) == 1
    editor.policy = edited = msgspec.structs.replace(POLICY, digest="edited")
    runner.read_edit()
    runner.read_edit()
    runner.run()
    assert [(reading.policy, reading.news) for reading in told] == [
        (POLICY, True),
        (edited, True),
        (edited, False),
    ]


def test_between_cycles_a_policy_that_the_last_cycle_refused_is_not_told_again(simulation, editor):
    told: list[Any] = []
    runner = runner_for(simulation, editor, Mode.DRY_RUN)
    runner.run()
    editor.policy = with_unknown_class(POLICY)
    runner.run()
    runner.on_policy(told.append)
    runner.read_edit()
    assert told == []
    editor.policy = POLICY
    runner.read_edit()
    assert [(reading.problem, reading.news) for reading in told] == [("", True)]


def test_an_edit_during_a_cycle_is_told_after_the_cycle(simulation, editor):
    told: list[Any] = []
    runner = runner_for(simulation, editor, Mode.DRY_RUN)
    edited = msgspec.structs.replace(POLICY, digest="edited")

    def edit(_):
        editor.policy = edited
        runner.read_edit()

    runner.on_decision(edit)
    runner.on_policy(told.append)
    runner.run()
    assert [reading.policy for reading in told] == [POLICY]
    runner.read_edit()
    assert [reading.policy for reading in told] == [POLICY, edited]


class Blind:
    def read_cluster(self, *_):
        raise ObservationError(ObservationSource.CLUSTER, "The API server is away.")


def test_a_bad_edit_is_published_also_in_a_cycle_that_cannot_observe(simulation, editor):
    told: list[Any] = []
    runner = runner_for(simulation, editor, Mode.DRY_RUN, cluster=Blind())
    runner.on_policy(told.append)
    runner.on_report(told.append)
    with pytest.raises(ObservationError):
        runner.run()
    (reading,) = told
    assert reading.policy == POLICY


class ServerThatTellsItsTime:
    """The simulated API server, with a clock that stands still."""

    def __init__(self, simulation):
        self._cluster = simulation.cluster
        self._time = simulation.clock.now()

    def read_cluster(self, *_):
        times = (self._time, self._time)
        return msgspec.structs.replace(self._cluster.read_cluster(), server_times=times)

    def read_around(self, pods):
        return self._cluster.read_around(pods)


def test_with_a_wrong_clock_no_state_is_dropped(simulation, editor):
    now = simulation.clock.now()
    pause = Pause(PauseScope.EVERYTHING, now, now + timedelta(hours=1), by="jane")
    place = SimulatedConfigMap()
    SimulatedStateStore(place).save(State(pauses=(pause,)))
    cluster = ServerThatTellsItsTime(simulation)
    runner = runner_for(simulation, editor, store=place, cluster=cluster)
    simulation.clock.advance(7200.0)
    assert runner.run().plan.hold is HoldReason.CLOCKS_DIFFER
    assert SimulatedStateStore(place).load().state == State(pauses=(pause,))
