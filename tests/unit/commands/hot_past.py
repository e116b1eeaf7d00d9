"""Hours with an overloaded node in a Prometheus of our own, and a policy for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from desched.lab.prometheus.queries import KUBE_STATE_SCOPE, cluster_created
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.lab.prometheus.small_cluster import BEGIN, END, SmallCluster

CREATED = cluster_created(KUBE_STATE_SCOPE)
"""The query that tells one cluster from another."""

TIMES = tuple(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M}" for at in (BEGIN + 3600, END))
SINCE_UNTIL = ("--since", TIMES[0], "--until", TIMES[1])


@contextmanager
def hot_prometheus() -> Iterator[FakePrometheus]:
    """It has a node with 95 % of its CPU in use, of which three pods use one core each."""
    with FakePrometheus() as server:
        add_hot_cluster(server)
        yield server


def add_hot_cluster(server: FakePrometheus, load_ratio: float = 0.95) -> SmallCluster:
    """A node with this load, of which three pods use one core each, and a calm one."""
    cluster = SmallCluster(server, loads=(load_ratio, 0.3))
    cluster.add(CREATED, 1000.0)
    for number in range(3):
        cluster.add_pod(f"web-{number}")
    cluster.add_pod("web-3", "b", cores=0.1)
    return cluster


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
