from itertools import product

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from desched import __version__
from desched.errors import ObservationSource
from desched.model.cluster import LargeObjects
from desched.model.plan import HoldReason, NodeOutlook
from desched.model.report import Mode, NotActing
from desched.model.state import MoveResult
from desched.plugins.caches.facts import CacheFacts, ModelNodes
from desched.plugins.gpus.drains.drain import GPU_DEMAND, DrainEnd
from desched.plugins.gpus.facts import ClusterGpus
from desched.policy.policy import MetricsSource, Policy
from desched.service.inputs.policy_file import PolicyReading
from desched.service.telemetry.metrics import FailedCycle, ServiceMetrics, SkippedTick
from tests.unit.service.example_reports import (
    BROKEN_DRAIN,
    DRAINING,
    FOLLOWED_UP,
    HELD,
    HOUR,
    LANDED_DRAIN,
    REPORT,
    STARTED_AT,
    begun_earlier,
    with_drain,
)

POLICY = Policy("policy.yaml", "digest-1", (), MetricsSource(""))


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


def test_the_expected_overload_is_summed_by_the_class_of_the_nodes(metrics):
    over, under, unknown = REPORT.plan.nodes
    hot = msgspec.structs.replace(over, outlook=NodeOutlook(60, 60, 70.5))
    other = msgspec.structs.replace(hot, node="te4", outlook=NodeOutlook(10, 15, 4.5))
    plan = msgspec.structs.replace(REPORT.plan, nodes=(hot, other, under, unknown))
    metrics.cycle_completed(msgspec.structs.replace(REPORT, plan=plan))
    assert values(metrics, "desched_expected_overload_minutes") == {
        ("overloaded",): 75,
        ("balanced",): 0,
        ("underloaded",): 0,
    }


def test_gpus_of_unknown_load_are_counted_only_if_the_policy_has_a_target_for_them(metrics):
    gpus = ClusterGpus.of(FOLLOWED_UP.facts)
    assert gpus is not None
    for unknown, shown in ((1, {(): 1}), (None, {})):
        facts = {"gpus": msgspec.structs.replace(gpus, unknown_nodes=unknown)}
        metrics.cycle_completed(msgspec.structs.replace(REPORT, facts=facts))
        assert values(metrics, "desched_unknown_gpu_nodes") == shown


def test_gpus_are_shown_for_the_cluster_its_nodes_and_its_domains(metrics):
    """S4.1: in every cycle, also in a dry run."""
    metrics.cycle_completed(FOLLOWED_UP)
    numbers = ("gpus", "idle_gpus", "fragmented_gpus", "gpu_pods", "movable_gpu_pods")
    assert [values(metrics, f"desched_{name}")[()] for name in numbers] == [16, 9, 1.5, 7, 4]
    places = {("1",): 9, ("2",): 4, ("4",): 2, ("8",): 1}
    assert values(metrics, "desched_gpu_places") == places
    assert values(metrics, "desched_gpu_nodes_left_out") == {
        ("shared_gpus",): 1,
        ("not_schedulable",): 0,
    }
    waits = values(metrics, "desched_pods_waiting_for_gpus")
    assert (waits["too_large",], sum(waits.values())) == (2, 2)
    assert values(metrics, "desched_node_idle_gpus") == {("g1",): 8, ("g2",): 1}
    assert values(metrics, "desched_node_fragmented_gpus") == {("g1",): 0.5, ("g2",): 1}
    assert values(metrics, "desched_domain_idle_gpus") == {("r1", "rack"): 9}
    assert values(metrics, "desched_domain_gpu_places") == {
        ("r1", size, "rack"): number for (size,), number in places.items()
    }


def test_the_nodes_that_hold_a_model_are_counted(metrics):
    models = (ModelNodes("llama-70b", 2, 5), ModelNodes("gpt", 0, 1))
    metrics.cycle_completed(msgspec.structs.replace(REPORT, facts={"caches": CacheFacts(models)}))
    assert values(metrics, "desched_model_nodes") == {("llama-70b",): 2, ("gpt",): 0}


def test_a_cluster_without_gpus_has_no_metrics_of_them(metrics):
    metrics.cycle_completed(REPORT)
    names = {line.split()[2] for line in metrics.exposition().decode().splitlines() if "#" in line}
    assert {name for name in names if "gpu" in name} == set()


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


def test_the_mode_distinguishes_a_dry_run():
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


def test_results_of_moves_are_counted_from_zero(metrics):
    series = product(("relief", "gpu_demand"), MoveResult)
    assert values(metrics, "desched_moves_total") == dict.fromkeys(series, 0)
    metrics.cycle_completed(FOLLOWED_UP)
    metrics.cycle_completed(REPORT)
    moves = values(metrics, "desched_moves_total")
    assert moves["relief", "landed_as_forecast"] == moves["relief", "back_on_source"] == 1
    assert sum(moves.values()) == 2


def test_a_move_that_is_judged_again_is_counted_once(metrics):
    metrics.cycle_completed(FOLLOWED_UP)
    metrics.cycle_completed(FOLLOWED_UP)
    assert sum(values(metrics, "desched_moves_total").values()) == 2


@pytest.mark.parametrize("fields", [{"mode": Mode.DRY_RUN}, {"not_acting": NotActing.NOT_LEADING}])
def test_moves_are_counted_by_the_acting_replica_only(metrics, fields):
    metrics.cycle_completed(msgspec.structs.replace(FOLLOWED_UP, **fields))
    assert sum(values(metrics, "desched_moves_total").values()) == 0


def test_what_is_in_flight_and_left_alone_is_shown(metrics):
    metrics.cycle_completed(FOLLOWED_UP)
    assert values(metrics, "desched_evictions_in_flight") == {(): 1}
    assert values(metrics, "desched_workloads_cooling_down") == {(): 1}
    assert values(metrics, "desched_nodes_cooling_down") == {(): 1}
    assert values(metrics, "desched_paused") == {
        ("workload",): 0,
        ("namespace",): 0,
        ("pool",): 1,
        ("everything",): 0,
    }
    assert values(metrics, "desched_state_bytes")[()] > values_of(REPORT, "desched_state_bytes")


def values_of(report, name):
    metrics = ServiceMetrics(Mode.EVICT)
    metrics.cycle_completed(report)
    return values(metrics, name)[()]


def test_forecasts_are_shown_beside_landings_once_there_are_some(metrics):
    metrics.cycle_completed(REPORT)
    assert values(metrics, "desched_forecast_hit_ratio") == {}
    metrics.cycle_completed(FOLLOWED_UP)
    assert values(metrics, "desched_forecast_checks") == {(): 2}
    assert values(metrics, "desched_forecast_hit_ratio") == {(): 0.5}
    assert values(metrics, "desched_forecast_hit_expected_ratio") == {(): pytest.approx(0.7)}
    assert values(metrics, "desched_forecast_bad_ratio") == {(): 0.5}
    assert values(metrics, "desched_forecast_bad_expected_ratio") == {(): pytest.approx(0.1)}


def test_not_acting_is_one_at_its_reason_only(metrics):
    metrics.cycle_completed(msgspec.structs.replace(REPORT, not_acting=NotActing.OUTSIDE_WINDOW))
    assert values(metrics, "desched_not_acting") == {
        (each,): each is NotActing.OUTSIDE_WINDOW for each in NotActing
    }


def test_saturated_pools_are_counted_once_each_and_a_cluster_without_pools_is_one(metrics):
    metrics.cycle_completed(REPORT)
    assert values(metrics, "desched_saturated_pools") == {(): 1}
    nodes = tuple(node for node in REPORT.plan.nodes if node.node != "te3")
    cool = msgspec.structs.replace(REPORT.plan, nodes=nodes)
    metrics.cycle_completed(msgspec.structs.replace(REPORT, plan=cool))
    assert values(metrics, "desched_saturated_pools") == {(): 0}
    full = msgspec.structs.replace(cool, hold=HoldReason.CLUSTER_SATURATED)
    metrics.cycle_completed(msgspec.structs.replace(REPORT, plan=full))
    assert values(metrics, "desched_saturated_pools") == {(): 1}


def test_other_deschedulers_are_counted(metrics):
    metrics.cycle_completed(msgspec.structs.replace(REPORT, other_deschedulers=("a in b",)))
    assert values(metrics, "desched_other_deschedulers") == {(): 1}


def test_only_the_namespaces_with_most_objects_that_are_too_large_have_a_series(metrics):
    large = {f"team-{i:02}": LargeObjects(objects=i, pods=1) for i in range(30)}
    metrics.cycle_completed(msgspec.structs.replace(REPORT, too_large=large))
    assert values(metrics, "desched_too_large_objects") == {
        (f"team-{i:02}",): i + 1 for i in range(10, 30)
    }


def test_leadership_is_shown_only_where_there_is_an_election(metrics):
    assert values(metrics, "desched_leader") == {}
    assert values(metrics, "desched_leadership_changes_total") == {(): 0}
    metrics.leadership_changed(leading=False)
    assert values(metrics, "desched_leader") == {(): 0}
    assert values(metrics, "desched_leadership_changes_total") == {(): 0}
    metrics.leadership_changed(leading=True)
    assert values(metrics, "desched_leader") == {(): 1}
    assert values(metrics, "desched_leadership_changes_total") == {(): 1}


def test_a_replica_that_loses_the_lease_drops_the_gauges_of_its_last_cycle(metrics):
    metrics.leadership_changed(leading=True)
    metrics.cycle_completed(FOLLOWED_UP)
    metrics.leadership_changed(leading=False)
    assert values(metrics, "desched_nodes") == values(metrics, "desched_nodes_cooling_down") == {}


def test_state_problems_are_counted(metrics):
    metrics.state_problem()
    assert values(metrics, "desched_state_problems_total") == {(): 1}


def test_results_of_moves_are_counted_by_purpose(metrics):
    moved = msgspec.structs.replace(FOLLOWED_UP.settled[0], purpose=GPU_DEMAND)
    metrics.cycle_completed(msgspec.structs.replace(FOLLOWED_UP, settled=(moved,)))
    moves = values(metrics, "desched_moves_total")
    assert moves["gpu_demand", "landed_as_forecast"] == 1
    assert sum(moves.values()) == 1


def test_a_purpose_that_only_a_newer_desched_knows_counts_as_relief(metrics):
    moved = msgspec.structs.replace(FOLLOWED_UP.settled[0], purpose="idle_node")
    metrics.cycle_completed(msgspec.structs.replace(FOLLOWED_UP, settled=(moved,)))
    assert values(metrics, "desched_moves_total")["relief", "landed_as_forecast"] == 1


def test_drains_are_counted_once_when_they_end(metrics):
    assert set(values(metrics, "desched_drains_total")) == {(end.value,) for end in DrainEnd}
    ended = begun_earlier(LANDED_DRAIN)
    for drain in (begun_earlier(DRAINING), ended, begun_earlier(BROKEN_DRAIN)):
        metrics.cycle_completed(with_drain(drain))
    metrics.cycle_completed(with_drain(msgspec.structs.replace(ended, ended_at=STARTED_AT - HOUR)))
    metrics.cycle_completed(
        msgspec.structs.replace(with_drain(ended), not_acting=NotActing.NOT_LEADING)
    )
    ends = values(metrics, "desched_drains_total")
    assert {end for (end,) in ends if ends[end,]} == {"landed", "broken"}
    assert sum(ends.values()) == 2


def test_only_drains_under_way_hold_nodes(metrics):
    for drain, held in ((DRAINING, 1), (LANDED_DRAIN, 0)):
        metrics.cycle_completed(with_drain(drain))
        assert values(metrics, "desched_drains_under_way")[()] == held
        assert values(metrics, "desched_drained_nodes")[()] == held
