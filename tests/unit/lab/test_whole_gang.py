"""A gang moves whole in the closed loop: planned, evicted, placed again and followed up as one."""

import pytest
from msgspec.structs import replace

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.lab.closed_loop import Day, Deployment, Descheduler, LoopResult, run
from desched.lab.demo import demo_policy
from desched.lab.history import Usage
from desched.lab.template import PodTemplate
from desched.model.cluster import SchedulingClass
from desched.model.report import CycleReport, EvictionVerdict, Mode
from desched.model.resources import Amounts
from desched.model.state import SUCCESSES, State
from desched.plugins.gangs.keys import GangMode
from desched.plugins.gangs.plugin import Gangs
from desched.ports import World
from tests.builders import house
from tests.mortal import Moment, Step, mortal_world

GANG = "gang train/llama (Koordinator)"
NODE = Amounts(cpu_millicores=32_000, memory_bytes=128 * 2**30)
NODES = tuple(f"n{i}" for i in range(6))
CYCLES = 14


def deployment(name: str, cpu: int, *nodes: str, **annotations: str) -> Deployment:
    usage = Usage(cpu, 2**30)
    template = PodTemplate(
        scheduling=SchedulingClass(Amounts(cpu, 2**30, pods=1)),
        usage_by_replica=(usage,) * len(nodes),
        labels={"app": name},
        annotations={key.replace("__", "/"): value for key, value in annotations.items()},
    )
    return Deployment(name, template, nodes, "train")


def a_day() -> Day:
    """Rank 0 shares n0 with a pod that stays; only two further nodes have room for a rank."""
    marks = {
        "gang.scheduling.koordinator.sh/name": "llama",
        "gang.scheduling.koordinator.sh/min-available": "4",
    }
    stays = {"desched.io/evict": "false"}
    return Day(
        dict.fromkeys(NODES, NODE),
        (
            deployment("llama", 14_000, "n0", "n1", "n2", "n3", **marks),
            deployment("store", 15_000, "n0", **stays),
        ),
    )


HOURLY = replace(demo_policy().limits, workload_hourly=None)
BY = replace(demo_policy(), plugins=house(Gangs(GangMode.WHOLE)), limits=HOURLY)


def desched(mode: GangMode) -> tuple[LoopResult, list[CycleReport]]:
    by = replace(BY, plugins=house(Gangs(mode)))
    descheduler = Descheduler(by, "simulation")
    reports: list[CycleReport] = []
    result = run(
        a_day().begin(), lambda world: reports.append(descheduler.cycle(world)), by, CYCLES
    )
    return result, reports


def test_a_gang_moves_whole_and_relieves_its_node() -> None:
    result, reports = desched(GangMode.WHOLE)
    (moving,) = [report for report in reports if report.outcomes]
    assert [outcome.verdict for outcome in moving.outcomes] == [EvictionVerdict.EVICTED] * 4
    assert {eviction.gang for eviction in moving.plan.evictions} == {GANG}
    settled = [report.settled for report in reports if report.settled]
    assert len(settled) == 1
    assert {record.result for record in settled[0]} <= SUCCESSES
    assert len(settled[0]) == 4
    assert len({move.at for move in result.moves}) == 1
    assert not result.overloaded[:, -1].any()


class Death(BaseException):
    """The end of a process, which nothing in it may notice."""


class Successor:
    """Cycles of which the first that acts dies before an eviction; the next has what it stored."""

    def __init__(self, evictions: int) -> None:
        self.state = State()
        self.reports: list[CycleReport] = []
        self._left: int | None = evictions

    def fate(self, step: Step) -> None:
        if step != Step("evictor.evict", Moment.BEFORE) or self._left is None:
            return
        if self._left == 0:
            raise Death
        self._left -= 1

    def cycle(self, world: World) -> None:
        try:
            info = CycleInfo(1, Mode.EVICT, "simulation")
            report, _ = run_cycle(mortal_world(world, self.fate), BY, self.state, info, self.keep)
        except Death:
            self._left = None
        else:
            self.state = report.state
            self.reports.append(report)

    def keep(self, state: State) -> None:
        self.state = state


@pytest.mark.parametrize("evictions", [0, 2])
def test_a_gang_that_a_dead_process_has_broken_is_paused_and_no_other(evictions: int) -> None:
    process = Successor(evictions)
    run(a_day().begin(), process.cycle, BY, CYCLES)
    broke = (
        next(i for i, report in enumerate(process.reports) if report.settled) if evictions else 0
    )
    paused = [report for report in process.reports if report.state.pauses]
    assert bool(paused) == bool(evictions)
    if not evictions:
        assert any(len(report.outcomes) == 4 for report in process.reports)
        return
    assert paused[0] is process.reports[broke]
    (pause,) = paused[0].state.pauses
    left = f"{evictions} of its pods left, {4 - evictions} stayed"
    assert pause.describe().endswith(f"{GANG} was to move whole: {left}")
    assert not any(report.plan.evictions for report in paused)
    assert not process.reports[-1].state.pauses
