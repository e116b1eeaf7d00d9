"""A gang moves whole in the closed loop: planned, evicted, placed again and followed up as one."""

from msgspec.structs import replace

from desched.model.cluster import SchedulingClass
from desched.model.report import CycleReport, EvictionVerdict
from desched.model.resources import Amounts
from desched.model.state import SUCCESSES
from desched.policy.compatibility import GangMode
from desched.simulation.closed_loop import Day, Deployment, Descheduler, LoopResult, run
from desched.simulation.demo import demo_policy
from desched.simulation.history import Usage
from desched.simulation.template import PodTemplate

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


def desched(mode: GangMode) -> tuple[LoopResult, list[CycleReport]]:
    limits = replace(demo_policy().limits, workload_hourly=None)
    by = replace(demo_policy(), gang_mode=mode, limits=limits)
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


def test_by_default_it_stays() -> None:
    result, reports = desched(GangMode.SURPLUS)
    assert result.moves == []
    assert "4 of 4 needed" in str(reports[-1].plan.refusals)
