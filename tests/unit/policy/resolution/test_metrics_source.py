import pytest

from desched.policy.policy import MetricsSource, MetricsType
from tests.unit.policy.published import published, refusal, resolved, warnings

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


def test_so_is_a_longer_sustained_for():
    changes = {**by_metrics_server(), "sustainedFor": "2h"}
    assert 'sustainedFor: found "2h"' in refusal(published(load_aware=changes))
