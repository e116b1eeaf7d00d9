"""Reads the load of the whole cluster: a handful of queries, whatever its size."""

from collections.abc import Callable, Iterator

from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.node_loads import NodeLoads
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_loads import Usages, read_pod_usages
from desched.adapters.prometheus.queries import NODE_SOURCES, check_matchers
from desched.adapters.prometheus.questions import Questions
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, LoadProblem, Measured, PodUsage, Unknown
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy

_LISTED_VALUES = 5  # of a label, in a sentence


class PrometheusLoadReader:
    """Reads load through one Prometheus-compatible server.

    `wait` pauses between attempts of a request and returns true if the process has been asked to
    stop. Queries of the user (policy `metrics.queries`) give for `node_cpu` and `node_memory` a
    share of capacity (0 to 1) per node, for `pod_cpu` cores and for `pod_memory` bytes with the
    labels namespace and pod. The age of what a user's query computed is not to be had: that of
    the built-in raw series counts if there are any, else the query is taken at its word.
    """

    def __init__(self, connection: PrometheusConnection, wait: Callable[[float], bool]) -> None:
        self._client = PrometheusClient(connection, wait)

    def close(self) -> None:
        """Close the pooled connections."""
        self._client.close()

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        Raises:
            ObservationError: Prometheus could not be asked, or answered with an error.
            ConfigurationError: a matcher is not permitted.
        """
        check_matchers(policy.metrics.matchers)
        questions, index = Questions(self._client), NodeIndex(cluster)
        node_loads = NodeLoads(questions, index, policy.metrics)
        nodes: dict[str, dict[Resource, Measured | Unknown]] = {n.name: {} for n in cluster.nodes}
        usages: dict[Resource, Usages] = {}
        for resource in NODE_SOURCES:
            if windows := policy.windows(resource):
                for name, load in node_loads.read(resource, windows, cluster).items():
                    nodes[name][resource] = load
                usages[resource] = read_pod_usages(
                    resource, windows, questions, index, policy.metrics
                )
        return ClusterLoad(
            nodes,
            _pods(usages.get(Resource.CPU, {}), usages.get(Resource.MEMORY, {})),
            tuple(_problems(questions, node_loads, policy.metrics)),
            len(node_loads.unresolved),
        )


def _pods(cpu: Usages, memory: Usages) -> dict[tuple[str, str], PodUsage]:
    return {pod: PodUsage(cpu.get(pod, ()), memory.get(pod, ())) for pod in cpu.keys() | memory}


def _problems(
    questions: Questions, node_loads: NodeLoads, metrics: MetricsSource
) -> Iterator[tuple[LoadProblem, str]]:
    for warning in questions.warnings:
        yield LoadProblem.PARTIAL_DATA, f"Prometheus warns: {warning}"
    for label, values in sorted(node_loads.cluster_values.items()):
        if len(values) > 1 and label not in metrics.matchers:
            first, *_ = listed = sorted(values)[:_LISTED_VALUES]
            sentence = (
                f"Prometheus holds {len(values)} clusters by the label {label} "
                f"({', '.join(listed)}); add this one to metrics.matchers, such as "
                f"{{{label}: {first}}}, and to queries of your own"
            )
            yield LoadProblem.SEVERAL_CLUSTERS, sentence
