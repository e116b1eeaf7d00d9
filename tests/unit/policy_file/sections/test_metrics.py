import pytest

from desched.policy.policy import MetricsSource, PrometheusStack
from tests.unit.policy_file.published import resolved


def by_stack(stack, address=None, **keys):
    return {"metrics": {"type": "prometheus", "address": address, "stack": stack, **keys}}


@pytest.mark.parametrize("stack", [PrometheusStack.GMP, PrometheusStack.AMP])
def test_a_managed_prometheus_has_an_address(stack):
    for url in ("https://prometheus.example.com/prom", None):  # the flag may have it
        found = resolved(load_aware=by_stack(stack.value, url)).metrics
        assert found == MetricsSource(url or "", stack=stack)
        assert not found.is_searched
