import pytest

from desched.model.resources import Resource
from tests.unit.policy_file.published import REMOVED, published, refusal, resolved, warnings


def rule(resource, **load_aware):
    policy = resolved(load_aware=load_aware)
    return next(rule for rule in policy.rules if rule.resource is resource)


def cpu_only(target, **more):
    return {"thresholds": {"cpu": 0}, "targetThresholds": {"cpu": target}, **more}


def test_percentages_become_ratios_and_resources_come_in_the_order_of_relief():
    thresholds = {"pods": 10, "cpu": 20.5, "memory": 30}
    targets = {"pods": 90, "cpu": 70.5, "memory": 80}
    policy = resolved(load_aware={"thresholds": thresholds, "targetThresholds": targets})
    found = [(r.resource, r.low_ratio, r.target_ratio) for r in policy.rules]
    assert found == [
        (Resource.MEMORY, 0.3, 0.8),
        (Resource.CPU, 0.205, 0.705),
        (Resource.PODS, 0.1, 0.9),
    ]


def test_pods_are_counted_without_a_window_and_a_warning_says_that_they_are_a_percentage():
    load_aware = {"thresholds": {"pods": 10}, "targetThresholds": {"pods": 90}}
    assert resolved(load_aware=load_aware).rules[0].windows_seconds == ()
    assert "targetThresholds.pods: is read as a percentage" in warnings(load_aware=load_aware)


@pytest.mark.parametrize(
    ("keys", "cpu", "memory"),
    [
        ({}, (300,), (300,)),
        ({"duration": None}, (300,), (300,)),
        ({"duration": "2m"}, (120,), (120,)),
        ({"windows": {"cpu": "90s"}}, (90,), (300,)),
        ({"windows": {"cpu": ["1h30m", "5m", "5m"]}, "duration": "10m"}, (300, 5400), (600,)),
    ],
)
def test_windows_are_sorted_and_fall_back_to_duration_and_then_to_five_minutes(keys, cpu, memory):
    assert rule(Resource.CPU, **keys).windows_seconds == cpu
    assert rule(Resource.MEMORY, **keys).windows_seconds == memory


def test_a_window_of_a_resource_without_thresholds_gets_a_warning():
    load_aware = cpu_only(80, windows={"memory": "5m"})
    assert "windows.memory: has no effect" in warnings(load_aware=load_aware)


@pytest.mark.parametrize(
    ("keys", "stop", "ceiling"),
    [
        (cpu_only(80), 0.05, 0.1),
        (cpu_only(80, stopMargin=2), 0.02, 0.1),
        (cpu_only(80, stopMargin=15), 0.15, 0.15),
        (cpu_only(80, ceilingMargin=3), 0.03, 0.03),
        (cpu_only(80, stopMargin=8, ceilingMargin=30), 0.08, 0.3),
        (cpu_only(6), 0.03, 0.06),
    ],
)
def test_margins_keep_ceiling_at_or_under_stop_and_defaults_fit_under_a_low_target(
    keys, stop, ceiling
):
    found = rule(Resource.CPU, **keys)
    assert (found.stop_margin_ratio, found.ceiling_margin_ratio) == (stop, ceiling)


def test_deviations_may_be_wider_below_the_mean_than_above_it():
    load_aware = {
        "useDeviationThresholds": True,
        "thresholds": {"cpu": 20},
        "targetThresholds": {"cpu": 10},
    }
    policy = resolved(load_aware=load_aware)
    assert policy.deviation
    assert (policy.rules[0].low_ratio, policy.rules[0].target_ratio) == (0.2, 0.1)
    assert "above targetThresholds" in refusal(
        published(load_aware={**load_aware, "useDeviationThresholds": False})
    )


def test_a_deviation_may_fill_destinations_to_below_the_mean_only():
    load_aware = {"useDeviationThresholds": True, **cpu_only(10, ceilingMargin=15)}
    assert resolved(load_aware=load_aware).rules[0].ceiling_margin_ratio == 0.15


def test_the_number_of_underloaded_nodes_gates_when_it_is_given():
    assert resolved(load_aware={"numberOfNodes": 3}).min_underloaded_nodes == 3
    assert resolved(load_aware={"numberOfNodes": None}).min_underloaded_nodes == 0


def test_queries_and_matchers_are_handed_on_under_the_names_of_the_adapter():
    metrics = {
        "type": "PROMETHEUS",
        "address": "https://thanos.example:9090/prefix",
        "matchers": {"cluster": "prod-eu1"},
        "queries": {
            "nodeCPU": "avg_over_time(cpu[{window}])",
            "nodeMemory": "max by (node) (instance:node_memory_utilisation:ratio)",
            "podCPU": "rate(c[{window}])",
            "podMemory": None,
        },
    }
    source = resolved(load_aware={"metrics": metrics}).metrics
    assert source.address == "https://thanos.example:9090/prefix"
    assert source.matchers == {"cluster": "prod-eu1"}
    assert source.queries == {
        "node_cpu": "avg_over_time(cpu[{window}])",
        "node_memory": "max by (node) (instance:node_memory_utilisation:ratio)",
        "pod_cpu": "rate(c[{window}])",
    }
    assert "queries.nodeMemory: has no {window}" in warnings(load_aware={"metrics": metrics})


def with_source(text):
    return {"metrics": {"type": "prometheus", "sources": {"podCPU": text}}}


@pytest.mark.parametrize(
    "text",
    [
        'job="kubelet"',
        ' job = "kubelet" , metrics_path=~"/metrics/cadvisor|" ',
        r'job!="a\"b",namespace!~"x,y"',
    ],
)
def test_a_source_is_a_list_of_matchers(text):
    assert resolved(load_aware=with_source(text)).metrics.sources == {"pod_cpu": text.strip()}


@pytest.mark.parametrize(
    "text", ["kubelet", 'job="a"} or x{a="b"', '{job="a"}', 'job="a",', "job='a'", 'job="a']
)
def test_anything_else_is_no_source(text):
    found = refusal(published(load_aware=with_source(text)))
    assert "metrics.sources.podCPU: is not a list" in found


@pytest.mark.parametrize("address", [None, "", REMOVED])
def test_the_address_may_be_left_to_the_settings(address):
    metrics = {"type": "prometheus", "address": address}
    if address is REMOVED:
        del metrics["address"]
    assert resolved(load_aware={"metrics": metrics}).metrics.address == ""


def of_gpus(**more):
    bounds = {"cpu": 80, "gpu": 70}
    return {"thresholds": {"cpu": 0, "gpu": 10}, "targetThresholds": bounds, **more}


def test_gpus_have_thresholds_margins_and_windows_as_cpu_has():
    found = rule(Resource.GPU, **of_gpus(windows={"gpu": ["15m", "5m"]}, ceilingMargin=20))
    assert (found.low_ratio, found.target_ratio, found.windows_seconds) == (0.1, 0.7, (300, 900))
    assert (found.stop_margin_ratio, found.ceiling_margin_ratio) == (0.05, 0.2)
    pool = {"name": "l4", "nodeSelector": "gpu=l4", "targetThresholds": {"cpu": 80, "gpu": 50}}
    (of_pool,) = resolved(load_aware=of_gpus(nodePools=[pool])).pools
    assert [each.target_ratio for each in of_pool.rules] == [0.8, 0.5]


def test_a_threshold_of_gpus_that_moves_nothing_gets_a_warning():
    few = 'targetThresholds.gpu: relieves nodes only of pods with desched.io/evict: "true"; '
    assert f"{few}set gpuPods: Allow, so that" in warnings(load_aware=of_gpus())
    strict = of_gpus(compatibility="Strict")
    assert "targetThresholds.gpu" not in warnings(load_aware=strict)
    assert few in warnings(load_aware={**strict, "gpuPods": "Protect"})
    assert "gpu" not in warnings(load_aware=of_gpus(gpuPods="Allow"))
    server = of_gpus(gpuPods="Allow", metrics={"type": "metrics-server"})
    why = "targetThresholds.gpu: relieves no node: only Prometheus has what pods use of GPUs."
    assert why in warnings(load_aware=server)


def test_gpus_are_not_the_only_resource():
    alone = {"thresholds": {"gpu": 0, "pods": 0}, "targetThresholds": {"gpu": 80, "pods": 90}}
    assert "targetThresholds: has gpu alone; add cpu or memory" in refusal(
        published(load_aware=alone)
    )
