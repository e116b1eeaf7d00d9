"""The spans of a cycle, as an exporter gets them."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.errors import ObservationError, ObservationSource
from desched.lab.world import Simulation
from desched.model.cluster import PodRef
from desched.model.report import CycleReport, EvictionVerdict, Mode
from desched.ports import EvictionAnswer, World
from desched.service.telemetry.traces import Traces
from tests.unit.test_cycle import ScriptedWorld, two_moves

EVICTED = EvictionAnswer(EvictionVerdict.EVICTED)
FORBIDDEN = EvictionAnswer(EvictionVerdict.FORBIDDEN, "a webhook says no")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Traces:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Traces(provider.get_tracer("test"))


def run(traces: Traces, scripted: ScriptedWorld, mode: Mode = Mode.EVICT) -> CycleReport:
    info = CycleInfo(7, mode, "test")
    evictor = scripted if mode is Mode.EVICT else None
    world = traces.world(World(scripted, scripted, scripted, evictor))

    def cycle() -> CycleReport:
        return run_cycle(world, scripted.policy, scripted.state, info)[0]

    return traces.cycle(cycle)()


def test_a_cycle_is_a_span_around_its_reads_its_plan_and_each_eviction(
    traces: Traces, exporter: InMemorySpanExporter
) -> None:
    scripted = two_moves(EVICTED, FORBIDDEN)
    report = run(traces, scripted)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    evictions = [span for span in exporter.get_finished_spans() if span.name == "evict"]

    assert set(spans) == {"cycle", "read cluster", "read load", "plan", "confirm", "evict"}
    assert spans["cycle"].attributes is not None
    assert spans["cycle"].attributes["desched.result"] == report.result.value
    assert all(is_within(span, spans["cycle"]) for name, span in spans.items() if name != "cycle")
    assert [attributes(span)["desched.verdict"] for span in evictions] == ["evicted", "forbidden"]
    assert [attributes(span)["k8s.pod.name"] for span in evictions] == scripted.asked
    assert [span.status.status_code for span in evictions] == [StatusCode.UNSET, StatusCode.ERROR]
    assert attributes(spans["plan"])["desched.evictions"] == len(report.plan.evictions)


def test_a_dry_run_of_an_eviction_is_a_span_of_its_confirmation(
    traces: Traces, exporter: InMemorySpanExporter
) -> None:
    simulation = Simulation()
    world = traces.world(simulation.world(acting=True))
    assert world.evictor is not None
    answer = world.evictor.would_evict(PodRef("shop", "web-1", "uid"), "to see what happens")
    assert answer.verdict is EvictionVerdict.GONE
    (span,) = exporter.get_finished_spans()
    assert span.name == "confirm"
    found = {"desched.pods": ("shop/web-1",), "desched.verdict": "gone"}
    assert attributes(span) == found


def is_within(span: ReadableSpan, outer: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == outer.context.span_id


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_the_span_of_the_plan_has_the_times_of_the_report(
    traces: Traces, exporter: InMemorySpanExporter
) -> None:
    report = run(traces, two_moves(EVICTED, EVICTED))
    (plan,) = (span for span in exporter.get_finished_spans() if span.name == "plan")
    assert plan.start_time is not None
    assert plan.end_time is not None
    began = report.started_at.timestamp() + report.observe_seconds
    assert plan.start_time / 1e9 == pytest.approx(began)
    assert (plan.end_time - plan.start_time) / 1e9 == pytest.approx(report.plan_seconds, abs=1e-5)


def test_a_dry_run_has_no_eviction_and_no_evictor(
    traces: Traces, exporter: InMemorySpanExporter
) -> None:
    run(traces, two_moves(), Mode.DRY_RUN)
    assert "evict" not in {span.name for span in exporter.get_finished_spans()}


def test_a_cycle_that_fails_is_a_span_with_the_error(
    traces: Traces, exporter: InMemorySpanExporter
) -> None:
    def failing() -> CycleReport:
        raise ObservationError(ObservationSource.CLUSTER, "The API server is away.")

    with pytest.raises(ObservationError):
        traces.cycle(failing)()
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "The API server is away." in (span.status.description or "")
