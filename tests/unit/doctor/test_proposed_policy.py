"""A proposed policy loads without warnings, and fits what was found."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from desched.doctor.examination import Examination, Origin, PolicyFacts, Unanswered
from desched.doctor.proposed_policy import STARTING_POLICY, fitting_windows, proposed_policy
from desched.model.load import Unknown, UnknownReason
from desched.model.measures import LabelGroup
from desched.policy.policy import MetricsSource, MetricsType, Policy
from desched.policy_file.loading import parse_policy
from tests.builders import load, node
from tests.unit.doctor.cases import ABSENT, CASES, EU, MIXED, OPENSHIFT, US, VICTORIA
from tests.unit.doctor.examinations import (
    ADDRESS,
    CHART,
    NAMES,
    cluster,
    examination,
    measure,
    metrics,
    policy,
    prometheus,
    run_facts,
)


def text_for(examined: Examination, base: Policy | None = None) -> str:
    text = proposed_policy(examined, base)
    assert text is not None
    return text


def proposed(examined: Examination, base: Policy | None = None) -> Policy:
    loaded = parse_policy(text_for(examined, base), "proposed")
    assert loaded.warnings == ()
    return loaded.policy


def args(examined: Examination, base: Policy | None = None) -> Any:
    document = yaml.safe_load(text_for(examined, base))
    return document["profiles"][0]["pluginConfig"][0]["args"]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_it_loads_without_warnings_whatever_was_found(number: int) -> None:
    examined = CASES[number].examined
    if examined.prometheus.address:
        proposed(examined, examined.policy.policy if number % 2 else None)


def test_the_policy_to_start_from_is_valid() -> None:
    assert parse_policy(STARTING_POLICY, "start").warnings == ()


def test_without_a_prometheus_there_is_none() -> None:
    nowhere = prometheus(address="", origin=Origin.NOWHERE)
    assert proposed_policy(examination(prometheus=nowhere)) is None


def test_metrics_server_is_proposed_where_load_comes_from_it() -> None:
    nowhere = prometheus(address="", origin=Origin.NOWHERE)
    base = policy(metrics=MetricsSource("", type=MetricsType.METRICS_SERVER))
    examined = examination(prometheus=nowhere, policy=PolicyFacts(base))
    assert proposed(examined, base).metrics == base.metrics


def test_the_address_is_the_one_that_was_read() -> None:
    assert proposed(examination()).metrics.address == ADDRESS


def test_an_address_of_this_machine_gives_way_to_the_service() -> None:
    forwarded = prometheus(address="http://127.0.0.1:9090", origin=Origin.SETTINGS)
    text = text_for(examination(prometheus=forwarded))
    assert f'address: "{ADDRESS}"' in text
    assert "port-forward service/prometheus-server" in text


def test_an_address_of_this_machine_stays_where_no_service_is_known() -> None:
    forwarded = prometheus(address="http://localhost:9090", services=())
    assert args(examination(prometheus=forwarded))["metrics"]["address"] == "http://localhost:9090"


def test_other_services_are_named_in_comments() -> None:
    several = prometheus(services=(CHART, VICTORIA))
    assert f"# Also found: {VICTORIA.url} (VictoriaMetrics)." in text_for(
        examination(prometheus=several)
    )


def test_what_the_source_needs_is_named() -> None:
    text = text_for(
        examination(prometheus=prometheus(address=OPENSHIFT.url, services=(OPENSHIFT,)))
    )
    assert "--prometheus-bearer-token-file" in text


def test_matchers_select_this_cluster() -> None:
    both = examination(metrics=metrics(cluster_values=MIXED, sightings=(EU, US)))
    assert proposed(both).metrics.matchers == {"cluster": "eu"}


def test_series_without_a_label_are_selected_by_an_empty_value() -> None:
    ours = (LabelGroup({}, 3),)
    both = examination(metrics=metrics(cluster_values={"cluster": ("", "us")}, sightings=ours))
    assert proposed(both).metrics.matchers == {"cluster": ""}


def test_wrong_matchers_of_a_policy_are_corrected_and_right_ones_stay() -> None:
    base = policy(metrics=MetricsSource(ADDRESS, {"cluster": "us"}))
    assert proposed(examination(metrics=metrics(sightings=(EU,))), base).metrics.matchers == {
        "cluster": "eu"
    }
    assert proposed(
        examination(metrics=metrics(sightings=(LabelGroup({"cluster": "us"}, 3),))), base
    ).metrics.matchers == {"cluster": "us"}


def test_a_job_with_an_unusual_name_becomes_a_source() -> None:
    mine = measure("node_cpu", **ABSENT, elsewhere=(LabelGroup({"job": "mine"}, 3),))
    examined = examination(metrics=metrics(mine))
    assert proposed(examined).metrics.sources == {"node_cpu": 'job="mine"'}
    assert "check that only trusted targets have these" in text_for(examined)


def test_a_young_prometheus_needs_no_source() -> None:
    young = measure("node_cpu", **ABSENT, reach_seconds=40.0)
    assert "sources" not in text_for(examination(metrics=metrics(young)))


def test_queries_of_the_policy_stay() -> None:
    own = {"node_cpu": "max(own[{window}])", "node_cpu_destination": "max(dest[{window}])"}
    base = policy(metrics=MetricsSource(ADDRESS, {}, own))
    assert proposed(examination(), base).metrics.queries == own


@pytest.mark.parametrize(
    ("given", "interval", "windows"),
    [
        ((), 30.0, (300,)),
        ((), 15.0, (300,)),
        ((), 60.0, (300,)),
        ((), 120.0, (480,)),
        ((120, 600), 30.0, (120, 600)),
        ((60, 600), 30.0, (600,)),
        ((10,), 15.0, (10,)),
        ((60,), 60.0, (300,)),
    ],
)
def test_windows_fit_the_scrape_interval(
    given: tuple[int, ...], interval: float, windows: tuple[int, ...]
) -> None:
    assert fitting_windows(given, interval) == windows


def test_windows_of_nodes_and_pods_both_fit() -> None:
    slow_pods = examination(metrics=metrics(measure("pod_memory", interval_seconds=120.0)))
    found = args(slow_pods)
    assert found["windows"] == {"cpu": ["5m"], "memory": ["8m"]}


def test_the_source_of_gpus_stays() -> None:
    sources = {"node_gpu": 'job="my-dcgm-exporter"'}
    base = policy(metrics=MetricsSource(ADDRESS, sources=sources))
    assert proposed(examination(), base).metrics.sources == sources


def test_the_price_of_an_eviction_stays_and_is_explained() -> None:
    assert proposed(examination(), policy(eviction_price_minutes=7.5)).eviction_price_minutes == 7.5
    text = text_for(examination())
    assert "# How many minutes of expected overload the move of a pod must save." in text
    assert "evictionPrice: 5m" in text


@pytest.mark.parametrize(
    ("ratios", "target", "low"),
    [
        ((0.1, 0.2, 0.3), 70, 20),
        ((0.5, 0.6, 0.77), 75, 45),
        ((0.7, 0.9, 0.99), 85, 55),
    ],
)
def test_targets_follow_the_load_within_bounds(
    ratios: tuple[float, ...], target: int, low: int
) -> None:
    found = args(examination(load=load({n: (r, 0.3) for n, r in zip(NAMES, ratios, strict=True)})))
    assert found["targetThresholds"] == {"cpu": target, "memory": 75}
    assert found["thresholds"]["cpu"] == low


def test_without_known_load_targets_are_the_usual_ones() -> None:
    unknown = {
        name: (Unknown(UnknownReason.ABSENT), Unknown(UnknownReason.ABSENT)) for name in NAMES
    }
    for examined in (
        examination(load=load(unknown)),
        examination(load=Unanswered("no")),
    ):
        assert args(examined)["targetThresholds"] == {"cpu": 80, "memory": 85}
        assert "# Today's load is not known." in text_for(examined)


def test_namespaces_of_the_infrastructure_stay() -> None:
    names = ("shop", "kube-system", "openshift-ingress", "istio-system", "systems")
    found = args(examination(cluster=cluster(namespaces={name: {} for name in names})))
    assert found["evictableNamespaces"]["exclude"] == [
        "istio-system",
        "kube-system",
        "monitoring",
        "openshift-ingress",
    ]


@pytest.mark.parametrize("value", ["größe", "🦀", "a\u2028b", "\x7f", "\U000e0001", "'\"\\"])
def test_any_value_of_a_label_survives(value: str) -> None:
    ours = (LabelGroup({"cluster": value}, 3),)
    both = metrics(cluster_values={"cluster": (value, "other")}, sightings=ours)
    assert proposed(examination(metrics=both)).metrics.matchers == {"cluster": value}


def test_hostile_names_cannot_leave_their_comment_or_scalar() -> None:
    hostile = 'x"\ny: 1\n# '
    examined = examination(
        run=run_facts(target=hostile),
        cluster=cluster(nodes=[node("a")], namespaces={f"{hostile}-system": {}}),
        metrics=metrics(
            cluster_values={"cluster": ("a", hostile)},
            sightings=(LabelGroup({"cluster": hostile}, 3),),
        ),
        prometheus=prometheus(services=(msgspec.structs.replace(CHART, name=hostile),)),
        policy=PolicyFacts(policy()),
    )
    found = args(examined)
    assert found["metrics"]["matchers"] == {"cluster": hostile}
    assert f"{hostile}-system" in found["evictableNamespaces"]["exclude"]
    assert set(found) == set(args(examination()))
    assert json.dumps(found["metrics"]["address"]) in text_for(examined)
