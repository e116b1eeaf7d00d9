import pytest

from desched.policy.policy import MetricsSource, MetricsType, PrometheusStack
from tests.unit.policy_file.published import published, refusal, resolved, warnings

OF_SAMPLES = MetricsSource("", type=MetricsType.METRICS_SERVER)


def by_metrics_server(spelling="metrics-server", **keys):
    return {"metrics": {"type": spelling, "address": None, **keys}}


@pytest.mark.parametrize(
    "spelling", ["metrics-server", "metrics_server", "Metrics-Server", "KubernetesMetrics"]
)
def test_metrics_server_may_be_spelt_as_others_spell_it(spelling):
    assert resolved(load_aware=by_metrics_server(spelling)).metrics == OF_SAMPLES


def test_what_only_prometheus_has_is_a_warning():
    address = by_metrics_server(address="http://prometheus:9090", matchers={"cluster": "a"})
    found = warnings(load_aware=address)
    assert "metrics.address: has no effect with metrics-server." in found
    assert "metrics.matchers: has no effect with metrics-server." in found
    assert resolved(load_aware=address).metrics == OF_SAMPLES


@pytest.mark.parametrize("duration", ["1m", "2h"])
def test_a_window_that_samples_cannot_cover_is_refused(duration):
    changes = {**by_metrics_server(), "duration": duration}
    assert f'has a window of "{duration}"' in refusal(published(load_aware=changes))
    resolved(load_aware={"duration": duration})  # Prometheus has a history


def test_so_is_a_destination_window():
    further = {"cpu": [{"window": "24h"}]}
    changes = {**by_metrics_server(), "destinationWindows": further}
    assert 'has a window of "24h"' in refusal(published(load_aware=changes))


def by_adaptor(duration=None, **keys):
    return {
        "metrics": {"type": "prometheus_adaptor", "address": None, **keys},
        "duration": duration,
    }


@pytest.mark.parametrize(("keys", "seconds"), [({}, 600), ({"averagedOver": "5m"}, 300)])
def test_a_window_of_values_that_are_means_is_longer_than_their_range(keys, seconds):
    policy = resolved(load_aware=by_adaptor(**keys))
    assert policy.metrics == MetricsSource(
        "", type=MetricsType.PROMETHEUS_ADAPTOR, averaged_seconds=seconds
    )
    assert {rule.windows_seconds for rule in policy.rules if rule.windows_seconds} == {
        (seconds + 300,)
    }


@pytest.mark.parametrize("duration", ["2m", "11m", "2h"])
def test_a_window_that_their_range_leaves_nothing_of_is_refused(duration):
    said = refusal(published(load_aware=by_adaptor(duration)))
    assert f'has a window of "{duration}", but the custom metrics API has no history' in said
    assert "means over 10m (metrics.averagedOver), and desched keeps samples for windows" in said
    resolved(load_aware=by_adaptor("12m"))
    resolved(load_aware=by_adaptor("2m", averagedOver="0s"))


def test_the_range_of_a_rule_is_for_the_custom_metrics_api_only():
    both = by_metrics_server(averagedOver="5m")
    assert "averagedOver: has no effect with metrics-server." in warnings(load_aware=both)
    assert resolved(load_aware=both).metrics == OF_SAMPLES
    prometheus = {"metrics": {"type": "prometheus", "address": None, "averagedOver": "5m"}}
    found = warnings(load_aware=prometheus)
    assert 'averagedOver: has an effect with "type: prometheus_adaptor" only.' in found


def by_stack(stack, address=None, **keys):
    return {"metrics": {"type": "prometheus", "address": address, "stack": stack, **keys}}


def test_a_stack_in_a_namespace_takes_the_place_of_the_address():
    policy = resolved(load_aware=by_stack("Mimir", namespace="monitoring", tenant="team-a"))
    assert policy.metrics == MetricsSource(
        "", stack=PrometheusStack.MIMIR, namespace="monitoring", tenant="team-a"
    )


def test_a_tenant_may_have_an_address_in_place_of_a_stack():
    for url in ("https://mimir.example/prometheus", None):  # the flag may have it
        assert resolved(load_aware=by_stack(None, url, tenant="team-a")).metrics.tenant == "team-a"


@pytest.mark.parametrize("stack", [PrometheusStack.GMP, PrometheusStack.AMP])
def test_a_managed_prometheus_has_an_address(stack):
    for url in ("https://prometheus.example.com/prom", None):  # the flag may have it
        found = resolved(load_aware=by_stack(stack.value, url)).metrics
        assert found == MetricsSource(url or "", stack=stack)
        assert not found.is_searched


def test_openshift_has_its_own_namespace():
    assert resolved(load_aware=by_stack("openshift")).metrics.namespace == "openshift-monitoring"


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        (by_stack("auto"), 'metrics.stack: found "auto" without a namespace; name it'),
        (by_stack("openshift", namespace="mine"), 'OpenShift\'s is "openshift-monitoring"'),
        (by_stack("auto", "http://a:80", namespace="mon"), "beside an address"),
        (by_stack(None, namespace="mon"), "metrics.namespace: is that of a stack"),
        (by_stack("thanos", namespace="mon", tenant="a"), 'is for Mimir, which "stack: thanos"'),
        (by_stack("mimir", namespace="mon", tenant="a\nb: c"), "the ID of a tenant"),
        (by_stack("mimir", namespace="Not One"), "metrics.namespace"),
        (by_stack("promethus"), 'allowed are "auto"'),
        (by_stack(7), 'allowed are "auto"'),
        (by_stack("gmp", namespace="mon"), "is that of a stack in the cluster; remove it."),
        (by_stack("AMP", namespace="mon"), "is that of a stack in the cluster; remove it."),
        (by_stack("azure"), "aad-auth-proxy"),
    ],
)
def test_a_stack_that_could_not_be_trusted_or_read_is_refused(metrics, why):
    assert why in refusal(published(load_aware=metrics))
