import re

import pytest

from desched.adapters.prometheus.queries import (
    NODE_SOURCES,
    check_matchers,
    exporter_names,
    own_query,
    pod_scope,
    pod_usage,
    throttled_pods,
)
from desched.errors import ConfigurationError
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource
from desched.promql.sources import scope_of

METRIC = re.compile(r"\b(?:node|container|machine)_\w+(\{[^}]*\})?")


def every_query(matchers: dict[str, str], sources: dict[str, str] | None = None) -> list[str]:
    metrics = MetricsSource("", matchers, {}, sources or {})
    found = [
        throttled_pods(300, pod_scope(metrics, Resource.CPU)),
        *(pod_usage(resource, 300, pod_scope(metrics, resource)) for resource in NODE_SOURCES),
    ]
    for resource, candidates in NODE_SOURCES.items():
        for source in candidates:
            scope = scope_of(metrics, f"node_{resource}", source.scope)
            found += [
                exporter_names(scope),
                source.ratio(300, scope),
                source.age(scope),
                source.covered_checkpoints(300, scope),
                source.scrape_interval(scope),
            ]
            if source.pods_ratio is not None:
                found.append(source.pods_ratio(300, scope))
    return found


@pytest.mark.parametrize("query", every_query({"cluster": "eu"}))
def test_matchers_are_in_every_selector(query: str) -> None:
    selectors = [found[1] for found in METRIC.finditer(query)]

    assert selectors
    assert all('cluster="eu"' in (selector or "") for selector in selectors), query


@pytest.mark.parametrize("query", every_query({}))
def test_every_selector_names_the_exporters_that_are_believed(query: str) -> None:
    selectors = [found[1] for found in METRIC.finditer(query)]

    assert selectors
    assert all('job=~"' in (selector or "") for selector in selectors), query


OWN_SOURCES = {name: f'job="{name}"' for name in ("node_cpu", "node_memory", "pod_cpu")}


@pytest.mark.parametrize(
    "query", every_query({"cluster": "eu"}, {**OWN_SOURCES, "pod_memory": 'job="mine"'})
)
def test_the_policy_replaces_the_exporters_of_a_measure(query: str) -> None:
    selectors = [found[1] for found in METRIC.finditer(query)]

    assert all(re.search(r'job="(node|pod)_|job="mine"', s) for s in selectors), query
    assert all('cluster="eu"' in s and "job=~" not in s for s in selectors), query


@pytest.mark.parametrize("query", every_query({}))
def test_queries_leave_room_for_long_matchers_in_a_url(query: str) -> None:
    assert len(query) < 2000


def test_the_value_of_a_matcher_cannot_end_its_string() -> None:
    scope = scope_of(MetricsSource("", {"cluster": 'x"} or up{a="\\\n'}), "node_cpu", 'job="a"')
    query = exporter_names(scope)

    assert r'cluster="x\"} or up{a=\"\\\n"' in query


@pytest.mark.parametrize("name", ["", "1a", "a-b", 'a="b",c', "a\n", "__näme"])
def test_a_matcher_must_be_named_like_a_label(name: str) -> None:
    with pytest.raises(ConfigurationError, match="a label has letters"):
        check_matchers({name: "x"})
    check_matchers({"k8s_cluster": "x"})


def test_own_queries_keep_their_braces_and_get_the_window() -> None:
    assert own_query('rate(x{a="b"}[{window}])', 90) == 'rate(x{a="b"}[90s])'


@pytest.mark.parametrize(
    ("window_seconds", "gap_seconds"), [(100, "30"), (300, "90"), (600, "180"), (3600, "180")]
)
def test_a_checkpoint_accepts_samples_of_three_tenths_of_the_window_but_of_three_minutes_at_most(
    window_seconds: int, gap_seconds: str
) -> None:
    query = NODE_SOURCES[Resource.CPU][0].covered_checkpoints(window_seconds, "")

    assert f">= time() - {gap_seconds})[{window_seconds}s:{window_seconds * 100}ms])" in query


def test_cpu_load_is_never_read_from_idle_time_alone() -> None:
    query = NODE_SOURCES[Resource.CPU][0].ratio(300, "")

    assert query.count("rate(node_cpu_seconds_total") == 2
    assert "avg" not in query
