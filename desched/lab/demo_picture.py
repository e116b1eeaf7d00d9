"""The demonstration as two timelines of all its nodes: without desched, and with it."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import chain

from msgspec.structs import replace

from desched.history.timeline import LoadOverTime, Timeline, TimelineEviction
from desched.lab.closed_loop import Pace, RecordingEvictor, load_by_step, targets_of
from desched.lab.cycle_counts import CycleCounts
from desched.lab.load import SimulatedLoad
from desched.lab.loop_timeline import lines_by, timeline_of
from desched.lab.world import Simulation
from desched.model.report import CycleReport
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.ports import World

LEAD_SECONDS = 600.0
"""How much earlier than the first cycle the timelines begin."""

WITHOUT = "without desched"
WITH = "with desched"


class RecordedScene:
    """A scene whose evictions and cycles are recorded from now on."""

    def __init__(self, name: str, scenario: Callable[[], Simulation], policy: Policy) -> None:
        self._name = name
        self._scenario = scenario
        self._policy = policy
        self._counts = CycleCounts(policy)
        self.simulation = scenario()
        self._evictor = RecordingEvictor(self.simulation)
        clock = self.simulation.clock
        self._began_at = clock.monotonic()
        self._pace = Pace(begins_at=self._began_at - LEAD_SECONDS)
        self._started_at = clock.now() - timedelta(seconds=LEAD_SECONDS)

    def world(self) -> World:
        """The world of the scene."""
        load = SimulatedLoad(self.simulation.cluster, last_hour=True)
        return self.simulation.world(acting=True)._replace(evictor=self._evictor, load=load)

    def add(self, report: CycleReport) -> None:
        """Record a cycle."""
        self._counts.add(report)

    def timelines(self) -> tuple[Timeline, Timeline]:
        """The same time without and with desched."""
        untouched = self._scenario()
        untouched.clock.advance(self.simulation.clock.monotonic() - self._began_at)
        nothing = CycleCounts(self._policy)
        before = self._timeline(WITHOUT, untouched, RecordingEvictor(untouched), nothing)
        after = self._timeline(WITH, self.simulation, self._evictor, self._counts)
        return before, after

    def _timeline(
        self, name: str, simulation: Simulation, evictor: RecordingEvictor, counts: CycleCounts
    ) -> Timeline:
        nodes = simulation.cluster.read_cluster().nodes
        load = load_by_step(simulation, nodes, self._pace)
        result = evictor.result(nodes, load, targets_of(self._policy), self._pace)
        lines = lines_by(counts, nodes)
        timeline = timeline_of(name, result, nodes, counts, self._started_at, lines)
        return replace(
            timeline,
            nodes=tuple(map(self._named, timeline.nodes)),
            evictions=tuple(map(self._moved, timeline.evictions)),
        )

    def _named(self, node: str) -> str:
        return f"{node} ({self._name})" if node and self._name else node

    def _moved(self, eviction: TimelineEviction) -> TimelineEviction:
        node, landed_on = self._named(eviction.node), self._named(eviction.landed_on)
        return replace(eviction, node=node, landed_on=landed_on)


def all_scenes(scenes: Iterable[RecordedScene]) -> tuple[Timeline, Timeline]:
    """The timelines of all scenes, as if they were one cluster."""
    before, after = zip(*(scene.timelines() for scene in scenes), strict=True)
    return _joined(before), _joined(after)


def _joined(timelines: Sequence[Timeline]) -> Timeline:
    first, steps = timelines[0], max(timeline.steps for timeline in timelines)
    evictions = chain.from_iterable(timeline.evictions for timeline in timelines)
    refusals = chain.from_iterable(timeline.refusals for timeline in timelines)
    return replace(
        first,
        nodes=tuple(chain.from_iterable(timeline.nodes for timeline in timelines)),
        loads=tuple(_joined_load(load.resource, timelines, steps) for load in first.loads),
        evictions=tuple(sorted(evictions, key=lambda moment: moment.at)),
        refusals=tuple(sorted(refusals, key=lambda total: (-total.pods, total.reason))),
        idle=tuple(chain.from_iterable(timeline.idle for timeline in timelines)),
    )


def _joined_load(resource: Resource, timelines: Sequence[Timeline], steps: int) -> LoadOverTime:
    loads = [timeline.load(resource) for timeline in timelines]
    lines = tuple(chain.from_iterable(load.lines for load in loads))
    rows = chain.from_iterable(load.ratios for load in loads)
    return LoadOverTime(
        resource, lines, tuple((*row, *[None] * (steps - len(row))) for row in rows)
    )
