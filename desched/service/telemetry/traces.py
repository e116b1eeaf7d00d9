"""OpenTelemetry traces of cycles: a span for the cycle, each read, the plan and each eviction.

The standard variables of OpenTelemetry configure the export, which is OTLP over HTTP.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from desched import __version__
from desched.model.cluster import ClusterState, PodRef
from desched.model.load import ClusterLoad
from desched.model.report import CycleReport, CycleResult, EvictionVerdict
from desched.policy.policy import Policy
from desched.ports import (
    Announcement,
    ChoosePods,
    ClusterReader,
    EvictionAnswer,
    Evictor,
    LoadReader,
    MaybeFreshPod,
    PodToRead,
    World,
    all_pods,
)

NAME = "desched"

ACCEPTED = frozenset({EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER})
"""Verdicts without an error; the others mark the span of an eviction."""


class Traces:
    """Makes spans of what a run does; it changes nothing of it."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def cycle(self, run: Callable[[], CycleReport]) -> Callable[[], CycleReport]:
        """The same cycle in a span of its own, which also has the span of the plan."""

        def traced() -> CycleReport:
            with self._tracer.start_as_current_span("cycle") as span:
                report = run()
                self._describe(span, report)
                return report

        return traced

    def world(self, world: World) -> World:
        """The same world with a span for each read and each eviction."""
        evictor = world.evictor
        return world._replace(
            cluster=_Cluster(world.cluster, self._tracer),
            load=_Load(world.load, self._tracer),
            evictor=None if evictor is None else _Evictions(evictor, self._tracer),
        )

    def _describe(self, span: Span, report: CycleReport) -> None:
        span.set_attributes(
            {
                "desched.cycle": report.cycle,
                "desched.mode": report.mode.value,
                "desched.result": report.result.value,
                "desched.target": report.target,
            }
        )
        if report.result is CycleResult.STOPPED:
            span.set_status(Status(StatusCode.ERROR))
        observed = report.started_at + timedelta(seconds=report.observe_seconds)
        planned = observed + timedelta(seconds=report.plan_seconds)
        plan = self._tracer.start_span(
            "plan",
            start_time=_nanoseconds(observed),
            attributes={
                "desched.evictions": len(report.plan.evictions),
                "desched.refusals": len(report.plan.refusals),
                "desched.hold": report.plan.hold.value if report.plan.hold else "",
            },
        )
        plan.end(_nanoseconds(planned))


class _Cluster:
    def __init__(self, reader: ClusterReader, tracer: Tracer) -> None:
        self._reader = reader
        self._tracer = tracer

    def read_cluster(
        self, declared_kinds: Sequence[str] = (), volcano_configurations: Sequence[str] = ()
    ) -> ClusterState:
        with self._tracer.start_as_current_span("read cluster") as span:
            cluster = self._reader.read_cluster(declared_kinds, volcano_configurations)
            counts = {"desched.nodes": len(cluster.nodes), "desched.pods": len(cluster.pods)}
            span.set_attributes(counts)
            return cluster

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        with self._tracer.start_as_current_span("confirm") as span:
            span.set_attribute("desched.pods", [str(look.pod) for look in pods])
            return self._reader.read_around(pods)


class _Load:
    def __init__(self, reader: LoadReader, tracer: Tracer) -> None:
        self._reader = reader
        self._tracer = tracer

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        with self._tracer.start_as_current_span("read load") as span:
            load = self._reader.read_load(cluster, policy, choose)
            counts = {"desched.nodes": len(load.nodes), "desched.pods": len(load.pods)}
            span.set_attributes(counts)
            return load


class _Evictions:
    def __init__(self, evictor: Evictor, tracer: Tracer) -> None:
        self._evictor = evictor
        self._tracer = tracer

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        with self._tracer.start_as_current_span("evict") as span:
            names = {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name}
            span.set_attributes({**names, "k8s.pod.uid": pod.uid})
            answer = self._evictor.evict(pod, reason)
            span.set_attribute("desched.verdict", answer.verdict.value)
            if answer.verdict not in ACCEPTED:
                span.set_status(Status(StatusCode.ERROR, answer.detail))
            return answer

    def would_evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        with self._tracer.start_as_current_span("confirm") as span:
            span.set_attribute("desched.pods", [str(pod)])
            answer = self._evictor.would_evict(pod, reason)
            span.set_attribute("desched.verdict", answer.verdict.value)
            return answer

    def announce(self, announcements: Sequence[Announcement]) -> None:
        self._evictor.announce(announcements)


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1e6) * 1000


@contextmanager
def exported() -> Iterator[Traces]:
    """Exports spans in the background, and the last ones at the end of the context."""
    own = Resource.create({"service.name": NAME, "service.version": __version__})
    named = OTELResourceDetector().detect()  # what the variables say has precedence
    provider = TracerProvider(resource=own.merge(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Traces(provider.get_tracer(NAME, __version__))
    finally:
        provider.shutdown()
