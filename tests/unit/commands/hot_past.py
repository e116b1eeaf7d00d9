"""Hours with an overloaded node in a Prometheus of our own, and a policy for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.adapters.prometheus.past.small_cluster import BEGIN, END, SmallCluster

TIMES = tuple(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M}" for at in (BEGIN + 3600, END))
SINCE_UNTIL = ("--since", TIMES[0], "--until", TIMES[1])


@contextmanager
def hot_prometheus() -> Iterator[FakePrometheus]:
    """It has a node with 95 % of its CPU in use, of which three pods use one core each."""
    with FakePrometheus() as server:
        cluster = SmallCluster(server, loads=(0.95, 0.3))
        for number in range(3):
            cluster.add_pod(f"web-{number}")
        cluster.add_pod("web-3", "b", cores=0.1)
        yield server


def written(path: Path, address: str, target: int = 80) -> Path:
    """A policy with this target for CPU, in this file."""
    path.write_text(f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: past
  pluginConfig:
  - name: LoadAware
    args:
      metrics: {{type: prometheus, address: "{address}"}}
      targetThresholds: {{cpu: {target}}}
      thresholds: {{cpu: 30}}
      duration: 5m
  plugins: {{balance: {{enabled: [LoadAware]}}}}
""")
    return path
