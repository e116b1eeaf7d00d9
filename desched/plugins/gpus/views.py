"""What is seen of GPUs and of drains for them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from desched.decision import Decision
from desched.model.cluster import Pod
from desched.model.report import CycleReport
from desched.model.state import State
from desched.plugins.gpus.drains.drain import DrainEnd, DrainPlan
from desched.plugins.gpus.drains.explained import drains_of_pod, holds_of
from desched.plugins.gpus.drains.progress import drain_events, ended_in
from desched.plugins.gpus.drains.wording import (
    describe_drain,
    describe_unserved,
    drain_sections,
    newest_drains,
)
from desched.plugins.gpus.facts import SIZES, ClusterGpus
from desched.plugins.gpus.gauges import drain_gauges, gpu_gauges
from desched.plugins.gpus.gpu_view import GpuView, describe_gpus, describe_wait, in_the_way
from desched.wording.formatting import count
from desched.wording.plugin_views import Counted, Gauge, LogEvent, PluginViews
from desched.wording.section import PodAnswer, Section, Tile

ENDED = Counted(
    "desched_drains",
    "Drains for GPUs that ended, by how; landed is the success.",
    "end",
    tuple(DrainEnd),
)


class GpuViews(PluginViews):
    """What is idle of GPUs, who waits for them, and which nodes are drained."""

    counted = (ENDED,)

    def sections(self, report: CycleReport) -> Iterator[Section]:
        """GPUs, what waits for them, and drains."""
        gpus = ClusterGpus.of(report.facts)
        if gpus is not None:
            yield from GpuView(gpus).sections
        yield from drain_sections(report)

    def tiles(self, report: CycleReport) -> Iterator[Tile]:
        """How many GPUs are idle, and how many pods wait for some."""
        gpus = ClusterGpus.of(report.facts)
        if gpus is not None:
            yield from GpuView(gpus).tiles

    def state_sections(self, state: State, now: datetime) -> Iterator[Section]:
        """The drains under way, then those of the last day."""
        yield Section("drains", [describe_drain(drain, now) for drain in newest_drains(state)])

    def explain_node(self, node: str, decision: Decision) -> Iterator[str]:
        """For what it is held, and what is idle of its GPUs."""
        yield from holds_of(node, decision)
        gpus = ClusterGpus.of(decision.facts)
        for of_node in gpus.nodes if gpus is not None else ():
            if of_node.node == node:
                yield f"{describe_gpus(of_node)}."

    def explain_pod(self, pod: Pod, decision: Decision) -> PodAnswer:
        """What moves for the pod, and what keeps it from GPUs if it waits for some."""
        notes = list(drains_of_pod(pod, decision))
        gpus = ClusterGpus.of(decision.facts)
        for wait in gpus.waits if gpus is not None else ():
            if pod.ref in wait.pods:
                return PodAnswer(describe_wait(wait), notes, in_the_way(wait))
        return PodAnswer(notes=notes)

    def gauges(self, report: CycleReport) -> Iterator[Gauge]:
        """The GPUs of a cluster that has some, and the drains."""
        gpus = ClusterGpus.of(report.facts)
        if gpus is not None:
            yield from gpu_gauges(gpus)
        yield from drain_gauges(report.state)

    def figures(self, report: CycleReport) -> Mapping[str, float]:
        """What is idle of the GPUs of a cluster that has some, and what it is good for."""
        gpus = ClusterGpus.of(report.facts)
        if gpus is None:
            return {}
        places = {f"places for {count(size, 'GPU')}": gpus.places[size] for size in SIZES}
        return {"idle GPUs": gpus.idle, "fragmented GPUs": gpus.fragmented, **places}

    def counts(self, report: CycleReport) -> Iterator[tuple[Counted, str]]:
        """The drains that ended."""
        for drain in ended_in(report):
            if drain.end is not None:
                yield ENDED, drain.end

    def log_fields(self, report: CycleReport) -> Mapping[str, Sequence[str]]:
        """The drains under way, and what waits without one."""
        drains = newest_drains(report.state)
        under_way = [describe_drain(d, report.started_at) for d in drains if d.under_way]
        unserved = DrainPlan.of(report.plan.extras).unserved
        return {"drains": under_way, "unserved": list(describe_unserved(unserved))}

    def log_events(self, report: CycleReport) -> Iterator[LogEvent]:
        """The drains that began and ended."""
        return drain_events(report)
