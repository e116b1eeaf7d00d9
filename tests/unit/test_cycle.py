"""A whole cycle against a scripted world: what is confirmed, asked, and remembered."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.errors import ObservationError, StopActing
from desched.model.cluster import ClusterState, Pod, PodRef
from desched.model.load import ClusterLoad, LoadHistory, PodChoice, Unknown, UnknownReason
from desched.model.plan import HoldReason
from desched.model.report import CycleReport, CycleResult, EvictionVerdict, Mode, NotActing
from desched.model.resources import Resource
from desched.model.snapshot import FreshPod, Snapshot
from desched.model.state import EvictionRecord, LastCycle, MoveResult, Pause, PauseScope, State
from desched.planning.situation import Situation
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.plugins.gpus.facts import ClusterGpus
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.plugin import Gpus
from desched.policy.acting_window import ActingWindow
from desched.policy.cron import cron_fields
from desched.policy.policy import Policy
from desched.ports import (
    Announcement,
    ChoosePods,
    EvictionAnswer,
    MaybeFreshPod,
    PodToRead,
    World,
    all_pods,
)
from tests.builders import NOW, certain, house, load, node, pod, policy, reasons, rule, snapshot
from tests.chosen_load import known_on

DEEP = policy(rule(target_ratio=0.6))
OK = EvictionAnswer(EvictionVerdict.EVICTED)


class ScriptedWorld:
    """All four ports at once: a snapshot to read, answers to give, and what was asked."""

    def __init__(self, seen: Snapshot, *answers: EvictionAnswer | Exception) -> None:
        self.seen = seen
        self.answers = list(answers)
        self.asked: list[str] = []
        self.announced: list[str] = []
        self.waited: list[float] = []
        self.stop_after: int | None = None
        self.fresh: Callable[[Pod], Pod | None] = lambda one: one
        self.time = NOW
        self.policy = DEEP
        self.looks = self.fresh_looks = 0
        self.may_act = True
        self.unwritable = False
        self.state = State()

    def read_cluster(self, *_: Sequence[str]) -> ClusterState:
        self.looks += 1
        return self.seen.cluster

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        return [self._look(each.pod) for each in pods]

    def _look(self, ref: PodRef) -> MaybeFreshPod:
        self.fresh_looks += 1
        cluster = self.seen.cluster
        try:
            one = self.fresh(next(p for p in cluster.pods if p.name == ref.name))
        except ObservationError as error:
            return error
        if one is None:
            return None
        node_of_it = cluster.node_by_name.get(one.node)
        return FreshPod(one, node_of_it, cluster.workload_of(one), None, cluster.budgets)

    def read_load(
        self,
        cluster: ClusterState,  # noqa: ARG002 (port)
        policy: Policy,  # noqa: ARG002 (port)
        choose: ChoosePods = all_pods,  # noqa: ARG002 (port)
    ) -> ClusterLoad:
        return self.seen.load

    def evict(self, one: PodRef, reason: str) -> EvictionAnswer:
        assert "hot" in reason
        self.asked.append(one.name)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def would_evict(self, one: PodRef, reason: str) -> EvictionAnswer:
        raise NotImplementedError

    def announce(self, announcements: Sequence[Announcement]) -> None:
        assert all(len(each.note) < 1024 for each in announcements)
        self.announced += [each.eviction.pod.name for each in announcements]

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - NOW).total_seconds()

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.time += timedelta(seconds=seconds)
        return False

    def stopping(self) -> bool:
        return self.stop_after is not None and len(self.asked) >= self.stop_after

    def run(self, mode: Mode = Mode.EVICT, state: State | None = None) -> CycleReport:
        info = CycleInfo(1, mode, "test", "desched-0")
        world = World(
            self, self, self, self, lambda: self.may_act, why_not=lambda: "there is no namespace"
        )
        report, _ = run_cycle(world, self.policy, state or State(), info, self.keep)
        self.state = report.state
        return report

    def keep(self, state: State) -> None:
        if self.unwritable:
            raise StopActing("the state was not written")
        self.state = state

    def without(self, *names: str, **changes: Any) -> None:
        """These pods are gone, or changed."""
        pods = [p for p in self.seen.cluster.pods if p.name not in names]
        if changes:
            pods = [
                msgspec.structs.replace(p, **changes) if p.name in names else p
                for p in self.seen.cluster.pods
            ]
        state = msgspec.structs.replace(self.seen.cluster, pods=tuple(pods))
        self.seen = msgspec.structs.replace(self.seen, cluster=state)

    def later(self, seconds: float) -> None:
        self.time = NOW + timedelta(seconds=seconds)


def two_moves(*answers: EvictionAnswer | Exception) -> ScriptedWorld:
    """A world whose plan is to evict a, then b."""
    pods = [pod(name, on="hot") for name in "abcd"]
    of_load = load({"hot": (0.9, 0.1), "cool": (0.0, 0.0)}, dict.fromkeys("abcd", (0.9, 0.1)))
    return ScriptedWorld(snapshot([node("hot"), node("cool")], pods, of_load), *answers)


def verdicts(report: CycleReport) -> list[str]:
    return [outcome.verdict.value for outcome in report.outcomes]


def test_a_plan_is_carried_out_in_order_announced_and_remembered() -> None:
    world = two_moves(OK, OK)
    report = world.run()
    assert world.asked == world.announced == ["a", "b"]
    assert report.result is CycleResult.EVICTED
    assert [(r.pod.name, r.node, r.expected_node) for r in world.state.evictions] == [
        ("a", "hot", "cool"),
        ("b", "hot", "cool"),
    ]
    assert world.state.evictions[0].cpu_millicores == 900


def test_a_dry_run_plans_the_same_and_asks_nothing() -> None:
    world = two_moves()
    report = world.run(Mode.DRY_RUN)
    assert report.result is CycleResult.PLANNED
    assert report.plan == two_moves(OK, OK).run().plan
    assert not world.asked
    assert not world.state.evictions


def test_nodes_with_gpus_of_unknown_load_are_counted_if_gpu_has_a_target() -> None:
    world = two_moves()
    gpus = GpuLoad({"hot": Unknown(UnknownReason.ABSENT, "no series")})
    seen = msgspec.structs.replace(world.seen.load, extras=gpus.extras)
    world.seen = msgspec.structs.replace(world.seen, load=seen)
    assert ClusterGpus.of(world.run(Mode.DRY_RUN).facts) is None
    world.policy = policy(rule(), rule(Resource.GPU))
    gpus_seen = ClusterGpus.of(world.run(Mode.DRY_RUN).facts)
    assert gpus_seen is not None
    assert gpus_seen.unknown_nodes == 1


def test_a_reserve_that_no_node_can_give_is_in_the_report() -> None:
    world = two_moves()
    rules = GpuDrainRules(reserves=(Reserve(8, place="p.yaml:31: reserve[0]"),))
    world.policy = msgspec.structs.replace(world.policy, plugins=house(Gpus(rules)))
    (found,) = world.run(Mode.DRY_RUN).unmet
    assert found.startswith("p.yaml:31: reserve[0]: no node has 8 GPUs")


def test_a_second_cycle_on_the_same_sample_evicts_nothing() -> None:
    world = two_moves(OK, OK)
    world.run()
    world.without("a", "b", deleting=True)
    report = world.run(state=world.state)
    assert not report.plan.evictions
    assert world.asked == ["a", "b"]


def test_memory_forgets_once_every_window_has_seen_the_departure() -> None:
    world = two_moves(OK, OK)
    world.run()
    world.without("a", "b", deleting=True)
    world.later(240)
    world.run(Mode.DRY_RUN, state=world.state)
    # They were seen terminating at 240 s and gone at 400 s: only from then on does time count.
    world.without("a", "b")
    world.later(400)
    world.run(Mode.DRY_RUN, state=world.state)
    world.later(699)
    report = world.run(Mode.DRY_RUN, state=world.state)
    assert len(world.state.evictions) == 2
    assert not report.plan.evictions
    world.later(701)  # what became of them is found out in this cycle, and forgotten in the next
    world.run(Mode.DRY_RUN, state=world.state)
    world.run(Mode.DRY_RUN, state=world.state)
    assert not world.state.evictions


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"uid": "another"}, "another pod has its name"),
        ({"node": "cool"}, "it is on node"),
        ({"deleting": True}, ""),
        ({"ready": False}, ""),
        ({"priority": 2_000_000_000}, "priority 2000000000"),
    ],
)
def test_what_the_fresh_look_finds_changed_is_left_alone(
    change: dict[str, Any], detail: str
) -> None:
    world = two_moves(OK)
    world.fresh = lambda one: msgspec.structs.replace(one, **change) if one.name == "a" else one
    report = world.run()
    assert verdicts(report) == ["not_confirmed", "evicted"]
    assert detail in report.outcomes[0].detail
    assert report.outcomes[0].refusal is not None
    assert world.asked == ["b"]


def test_an_answer_that_is_not_understood_ends_acting_and_counts_as_evicted() -> None:
    world = two_moves(StopActing("no answer within 10 s"))
    report = world.run()
    assert verdicts(report) == ["unknown", "not_begun"]
    assert report.result is CycleResult.STOPPED
    assert [r.pod.name for r in world.state.evictions] == ["a"]
    assert "no answer within 10 s" in report.outcomes[1].detail


def test_a_workload_whose_pod_may_not_be_evicted_rests_and_longer_each_time() -> None:
    refusal = EvictionAnswer(EvictionVerdict.FORBIDDEN, "no")
    world = two_moves(refusal, OK)
    world.run()
    first = timedelta(seconds=DEEP.follow_up.cool_down_first_seconds)
    (cool_down,) = world.state.cool_downs
    assert (cool_down.until, cool_down.result) == (NOW + 2 * first, MoveResult.REFUSED)
    world.later(300)
    assert set(reasons(world.run(Mode.DRY_RUN, state=world.state).plan).values()) >= {
        "cooling_down"
    }
    over = msgspec.structs.replace(world.state, evictions=())
    world.later(2 * first.total_seconds())
    world.answers = [refusal, OK]
    world.run(state=over)
    assert world.state.cool_downs[0].until == NOW + 2 * first + 4 * first


def test_an_eviction_is_written_down_with_all_that_judging_it_takes() -> None:
    world = two_moves(OK, OK)
    (planned, _) = world.run().plan.evictions
    record = world.state.evictions[0]
    assert (record.workload, record.replicas) == ("Deployment apps/web", 20)
    assert record.landing == planned.landing
    assert record.judged_by == NOW + timedelta(seconds=30, minutes=10)


def test_following_evictions_up_asks_nothing_of_the_cluster() -> None:
    one = EvictionRecord(pod("gone").ref, "hot", "uid-web", NOW, certain("cool"))
    records = tuple(
        msgspec.structs.replace(one, pod=pod(f"gone-{i}").ref, judged_by=NOW) for i in range(50)
    )
    world = two_moves()
    reads = world.looks
    report = world.run(Mode.DRY_RUN, state=State(records))
    assert len(report.settled) == 50
    assert (world.looks - reads, world.fresh_looks) == (1, 0)


PAUSED = State(pauses=(Pause(PauseScope.EVERYTHING, NOW, None, why="maintenance", by="jane"),))
NIGHT = ActingWindow(cron_fields("0 0 * * *"), 3600)
DAY = ActingWindow(cron_fields("0 8 * * *"), 36_000)


def test_a_paused_desched_plans_and_says_why_it_does_not_act() -> None:
    world = two_moves()
    report = world.run(state=PAUSED)
    assert (report.result, report.not_acting) == (CycleResult.NOT_ACTING, NotActing.PAUSED)
    assert "by jane until it is resumed: maintenance" in report.not_acting_detail
    assert verdicts(report) == ["not_begun", "not_begun"]
    assert not world.asked
    assert world.state.last_cycle == LastCycle(
        NOW, "desched-0", "evict", "not_acting", ("hot",), not_acting=report.not_acting_detail
    )


@pytest.mark.parametrize(
    "windows", [{"maintenance_windows": (NIGHT,)}, {"blackout_windows": (DAY,)}]
)
def test_outside_its_windows_it_plans_and_does_not_act(windows: dict[str, Any]) -> None:
    world = two_moves()
    world.policy = msgspec.structs.replace(DEEP, **windows)
    report = world.run()
    assert report.not_acting is NotActing.OUTSIDE_WINDOW
    assert len(report.plan.evictions) == 2
    assert not world.asked


def test_with_a_limit_of_zero_it_plans_and_does_not_act() -> None:
    world = two_moves()
    limits = msgspec.structs.replace(DEEP.limits, total=0, zero_at="policy.yaml:9: total")
    world.policy = msgspec.structs.replace(DEEP, limits=limits)
    report = world.run()
    assert (report.result, report.not_acting) == (CycleResult.NOT_ACTING, NotActing.LIMIT_ZERO)
    assert report.not_acting_detail == "policy.yaml:9: total"
    assert verdicts(report) == ["not_begun", "not_begun"]
    assert not world.asked


def test_a_dry_run_shows_its_plan_whatever_forbids_to_act() -> None:
    report = two_moves().run(Mode.DRY_RUN, state=PAUSED)
    assert (report.result, report.not_acting) == (CycleResult.PLANNED, NotActing.PAUSED)


def test_an_instance_that_does_not_lead_does_not_act() -> None:
    world = two_moves()
    world.may_act = False
    report = world.run()
    assert report.not_acting is NotActing.NOT_LEADING
    assert report.not_acting_detail == "there is no namespace"
    assert verdicts(report) == ["not_begun", "not_begun"]


def test_what_became_of_an_eviction_is_reported_once() -> None:
    world = two_moves(OK, OK)
    world.run()
    world.without("a", "b")
    world.later(60)
    assert not world.run(Mode.DRY_RUN, state=world.state).settled
    world.later(631)
    settled = world.run(Mode.DRY_RUN, state=world.state).settled
    assert {(r.pod.name, r.result) for r in settled} == {
        ("a", MoveResult.NEVER_CAME),
        ("b", MoveResult.NEVER_CAME),
    }
    assert not world.run(Mode.DRY_RUN, state=world.state).settled


UNDER_WAY = EvictionRecord(
    PodRef("apps", "web-0", "uid-web-0"),
    "hot",
    "uid-web",
    NOW,
    certain("cool"),
    100.0,
    0.0,
    left_at=NOW,
    judged_by=NOW + timedelta(minutes=10),
)


@pytest.mark.parametrize("hours", [-1, 1])
def test_with_a_clock_an_hour_off_nothing_is_evicted_nor_judged(hours: float) -> None:
    world = two_moves()
    servers = NOW - timedelta(hours=hours)
    state = msgspec.structs.replace(world.seen.cluster, server_times=(servers, servers))
    world.seen = msgspec.structs.replace(world.seen, cluster=state)
    report = world.run(state=State((UNDER_WAY,)))
    assert (report.result, report.plan.hold) == (CycleResult.HELD, HoldReason.CLOCKS_DIFFER)
    assert world.state.evictions == (UNDER_WAY,)
    assert not world.asked


class JumpingWorld(ScriptedWorld):
    """Its wall clock is set to another time while the load is read."""

    jump = timedelta(0)
    ahead = timedelta(0)

    def monotonic(self) -> float:
        return (self.time - self.ahead - NOW).total_seconds()

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        self.time += self.jump
        self.ahead += self.jump
        return super().read_load(cluster, policy, choose)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_while_the_load_is_read_judges_no_move(hours: float) -> None:
    """The servers' times lie between the beginning and the end of the requests all the same."""
    world = JumpingWorld(two_moves().seen, OK, OK)
    world.jump = timedelta(hours=hours)
    times = world.seen.cluster.server_times or (NOW, NOW)
    cluster = msgspec.structs.replace(world.seen.cluster, server_times=times)
    read = msgspec.structs.replace(world.seen.load, server_times=times)
    world.seen = msgspec.structs.replace(world.seen, cluster=cluster, load=read)
    report = world.run(state=State((UNDER_WAY,)))
    assert report.plan.hold is None
    assert UNDER_WAY in world.state.evictions
    assert world.state.failures == ()


class ReadingsOf:
    """The LoadReader port with a load for each reading; `choices` are what was chosen."""

    def __init__(self, *loads: ClusterLoad) -> None:
        self._loads = list(loads)
        self.choices: list[PodChoice | None] = []

    def read_load(
        self,
        cluster: ClusterState,  # noqa: ARG002 (port)
        policy: Policy,  # noqa: ARG002 (port)
        choose: ChoosePods = all_pods,
    ) -> ClusterLoad:
        found = self._loads.pop(0)
        self.choices.append(choose(found))
        return found


def report_of(seen: Snapshot, load_reader: ReadingsOf) -> CycleReport:
    scripted = ScriptedWorld(seen)
    world = World(scripted, load_reader, scripted, None)
    info = CycleInfo(1, Mode.DRY_RUN, "test", "desched-0")
    return run_cycle(world, DEEP, State(), info)[0]


def test_the_load_is_read_once() -> None:
    seen = two_moves().seen
    load_reader = ReadingsOf(known_on(seen.load, seen.cluster, "hot", "cool"))

    report = report_of(seen, load_reader)

    assert load_reader.choices == [
        PodChoice(frozenset({"hot"}), sums=frozenset({"hot"}), pasts=frozenset({"hot"}))
    ]
    assert [eviction.pod.name for eviction in report.plan.evictions] == ["a", "b"]


def count_classifications(monkeypatch: pytest.MonkeyPatch) -> list[ClusterLoad]:
    """The loads by which nodes will have been classified."""
    classified = []
    once = Situation.of

    def counted(seen: Snapshot, by: Policy, state: State) -> Situation:
        classified.append(seen.load)
        return once(seen, by, state)

    monkeypatch.setattr(Situation, "of", counted)
    return classified


def test_nodes_are_not_classified_again_for_the_last_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read last, for people only."""
    seen = two_moves().seen
    known = known_on(seen.load, seen.cluster, "hot", "cool")
    last_hour = {"hot": {Resource.CPU: LoadHistory(300, (0.9, 0.9))}}
    classified = count_classifications(monkeypatch)

    class WithLastHour(ReadingsOf):
        def read_load(
            self, cluster: ClusterState, by: Policy, choose: ChoosePods = all_pods
        ) -> ClusterLoad:
            return msgspec.structs.replace(
                super().read_load(cluster, by, choose), last_hour=last_hour
            )

    report = report_of(seen, WithLastHour(known))

    assert classified == [known]
    assert [each.ratios for each in report.recent_loads] == [(0.9, 0.9)]


def test_without_an_overloaded_node_a_pod_that_has_arrived_is_not_read() -> None:
    calm = load({"hot": (0.3, 0.1), "cool": (0.0, 0.0)}, {"a": (0.9, 0.1)})
    started_at = NOW - timedelta(seconds=60)
    seen = snapshot([node("hot"), node("cool")], [pod("a", on="hot", started_at=started_at)], calm)
    load_reader = ReadingsOf(known_on(calm, seen.cluster))

    report = report_of(seen, load_reader)

    assert load_reader.choices == [PodChoice()]
    assert report.result is CycleResult.NOTHING_TO_DO
