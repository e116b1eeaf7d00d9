"""The doctor's replays of the last day: they have an end, and every failure keeps the default."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from desched.doctor import replayed_price as module
from desched.doctor.price import PRICES_MINUTES
from desched.doctor.replayed_price import LONGEST_SECONDS, MOST_NODES, replayed_price
from desched.policy.policy import MetricsType
from desched.policy_file.loading import load_policy
from desched.service.process.clock import SystemClock
from desched.settings import load_settings
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.commands.hot_past import hot_prometheus, written
from tests.unit.lab.prometheus.small_cluster import END, SmallCluster


class PastClock(SystemClock):
    """Now is the end of what is recorded; each look at the time lasts so long."""

    look_seconds = 0.0
    seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(END, UTC)

    def monotonic(self) -> float:
        self.seconds += self.look_seconds
        return self.seconds


@pytest.fixture
def price(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAST", timedelta(hours=1))
    clock = PastClock()

    def price(prometheus, nodes=2, look_seconds=0.0, **metrics):
        policy = load_policy(written(tmp_path / "policy.yaml", prometheus.url)).policy
        policy = replace(policy, metrics=replace(policy.metrics, **metrics))
        clock.look_seconds = look_seconds
        return replayed_price(load_settings({}), policy, nodes, clock, lambda _: None)

    return price


def test_the_price_is_that_of_the_last_day(price):
    with hot_prometheus() as prometheus:
        found = price(prometheus)
    assert found.minutes in PRICES_MINUTES
    assert "which had 60 overloaded node-minutes: 3m leaves" in found.why[0]


def test_what_takes_too_long_keeps_the_default(price):
    with hot_prometheus() as prometheus:
        found = price(prometheus, look_seconds=LONGEST_SECONDS / 2)
        assert found.minutes is None
        assert "replaying the last day takes longer than 2 minutes" in found.why[0]
        asked = len(prometheus.asked)
        assert "more than 1,000 nodes" in price(prometheus, nodes=MOST_NODES + 1).why[0]
        assert len(prometheus.asked) == asked


def test_a_prometheus_without_the_past_keeps_the_default(price):
    with FakePrometheus() as prometheus:
        SmallCluster(prometheus)  # without any pod
        found = price(prometheus)
    assert found.minutes is None
    assert "the last day cannot be replayed (" in found.why[0]
    assert "kube_pod_info" in found.why[0]


def test_metrics_server_does_not_know_the_past(price):
    with FakePrometheus() as prometheus:
        found = price(prometheus, type=MetricsType.METRICS_SERVER, address="")
        assert not prometheus.asked
    assert "does not know the past" in found.why[0]
