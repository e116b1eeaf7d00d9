"""Real nodes run pods that use CPU, Prometheus sees it, and a kubelet can fall silent."""

from functools import partial

from tests.nodes.lab import Lab
from tests.nodes.story import HOT, Story


def test_pods_burn_where_they_are_placed_and_prometheus_sees_it(lab: Lab, story: Story) -> None:
    story.begin()
    assert list(story.places().values()) == [HOT] * 3
    truth = lab.busy(seconds=10)
    assert truth[HOT] > 3 * max(truth[name] for name in lab.nodes if name != HOT)
    assert all(truth[pod["metadata"]["uid"]] > 0 for pod in story.plane.pods(story.namespace))
    burning = f'namespace="{story.namespace}",pod="stress-pod",container="stress"'
    for series in (
        f'node_cpu_seconds_total{{instance="{HOT}",mode="user"}}',
        f'container_cpu_usage_seconds_total{{{burning},metrics_path="/metrics/cadvisor"}}',
        f'container_cpu_usage_seconds_total{{{burning},metrics_path="/metrics/resource"}}',
    ):
        lab.prometheus.wait_until_has(f"{series} > 1")


def test_a_node_whose_kubelet_is_silent_is_not_ready_until_it_goes_on(lab: Lab) -> None:
    with lab.nodes[HOT].silent_kubelet():
        lab.plane.wait_for("it is not Ready", lambda: not lab.is_ready(HOT))
    lab.plane.wait_for("it is Ready again", partial(lab.is_ready, HOT))
