import pytest
from prometheus_client.parser import text_string_to_metric_families

from desched import __version__
from desched.errors import ObservationSource
from desched.model.report import Mode
from desched.policy.policy import MetricsSource, Policy
from desched.service.metrics import FailedCycle, ServiceMetrics, SkippedTick
from desched.service.policy_file import PolicyReading
from tests.unit.service.reports import HELD, REPORT, STARTED_AT

POLICY = Policy("policy.yaml", "digest-1", "default", (), MetricsSource(""))


@pytest.fixture
def metrics():
    return ServiceMetrics(Mode.EVICT)


def values(metrics, name):
    """Values of a metric by the values of its labels."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_counters_begin_at_zero_so_that_a_first_increase_shows(metrics):
    cycles = values(metrics, "desched_cycles_total")
    assert cycles["evict", "evicted"] == 0
    assert cycles["evict", "crashed"] == 0
    assert values(metrics, "desched_ticks_skipped_total") == {("cycle_running",): 0, ("missed",): 0}
    assert values(metrics, "desched_observation_failures_total") == {
        ("cluster",): 0,
        ("prometheus",): 0,
    }


def test_a_completed_cycle_is_counted_and_shown(metrics):
    metrics.cycle_completed(REPORT)
    assert values(metrics, "desched_cycles_total")["evict", "evicted"] == 1
    assert values(metrics, "desched_evictions_total") == {("evict", "shop", "evicted"): 1}
    assert values(metrics, "desched_cycle_duration_seconds_count") == {(): 1}
    assert values(metrics, "desched_last_success_timestamp_seconds") == {(): STARTED_AT.timestamp()}
    nodes = values(metrics, "desched_nodes")
    assert nodes["overloaded",] == nodes["underloaded",] == nodes["unknown",] == 1
    assert nodes["balanced",] == 0
    assert values(metrics, "desched_unknown_nodes")["stale",] == 1
    assert values(metrics, "desched_unrelieved_nodes")["pool_saturated",] == 1
    assert sum(values(metrics, "desched_unrelieved_nodes").values()) == 1
    assert values(metrics, "desched_refusals")["not_needed",] == 2
    assert values(metrics, "desched_node_load_ratio") == {
        ("te3", "cpu"): 0.875,
        ("te5", "cpu"): 0.1,
    }
    assert values(metrics, "desched_planned_evictions") == {("evict",): 1}
    assert values(metrics, "desched_unresolved_series") == {(): 2}


def test_a_hold_is_one_at_its_reason_only(metrics):
    metrics.cycle_completed(HELD)
    held = values(metrics, "desched_hold")
    assert held["partial_data",] == 1
    assert sum(held.values()) == 1
    metrics.cycle_completed(REPORT)
    assert sum(values(metrics, "desched_hold").values()) == 0


def test_gauges_of_the_last_cycle_vanish_while_nothing_can_be_observed(metrics):
    metrics.cycle_completed(REPORT)
    metrics.observation_failed(ObservationSource.PROMETHEUS)
    assert values(metrics, "desched_observation_failures_total")["prometheus",] == 1
    assert values(metrics, "desched_cycles_total")["evict", "observation_failed"] == 1
    assert values(metrics, "desched_nodes") == {}
    assert values(metrics, "desched_node_load_ratio") == {}


def test_a_crash_and_skipped_ticks_are_counted(metrics):
    metrics.cycle_failed(FailedCycle.CRASHED)
    metrics.tick_skipped(SkippedTick.CYCLE_RUNNING)
    assert values(metrics, "desched_cycles_total")["evict", "crashed"] == 1
    assert values(metrics, "desched_ticks_skipped_total")["cycle_running",] == 1


def test_the_policy_in_force_is_named_and_a_refused_edit_shows(metrics):
    metrics.policy_read(PolicyReading(POLICY))
    assert values(metrics, "desched_policy_valid") == {(): 1}
    metrics.policy_read(PolicyReading(POLICY, problem="policy.yaml:3: bad"))
    assert values(metrics, "desched_policy_valid") == {(): 0}
    assert values(metrics, "desched_policy_info") == {("digest-1", "policy.yaml"): 1}


def test_the_mode_tells_a_dry_run_apart():
    metrics = ServiceMetrics(Mode.DRY_RUN)
    metrics.cycle_completed(REPORT)
    assert values(metrics, "desched_planned_evictions") == {("dry_run",): 1}


def test_the_build_and_the_process_are_described(metrics):
    assert any(__version__ in labels for labels in values(metrics, "desched_build_info"))
    assert values(metrics, "process_resident_memory_bytes")[()] > 0


def test_no_series_of_creation_times_double_the_counters(metrics):
    metrics.cycle_completed(REPORT)
    assert b"_created" not in metrics.exposition()


def test_two_services_in_one_process_share_nothing():
    first, second = ServiceMetrics(Mode.EVICT), ServiceMetrics(Mode.EVICT)
    first.cycle_completed(REPORT)
    assert values(second, "desched_cycles_total")["evict", "evicted"] == 0
