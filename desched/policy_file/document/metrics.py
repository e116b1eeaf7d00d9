"""The part of LoadAware's arguments that defines where load comes from."""

from typing import Annotated

from pydantic import Field

from desched.policy.policy import MetricsType, PrometheusStack
from desched.policy.wording import quoted
from desched.policy_file.document.values import (
    Form,
    NamespaceName,
    Section,
    lasting,
    matching,
    optional,
    refusal,
)

VOLCANO_AVERAGE_SECONDS = 600
"""The range in the rules of Volcano's documentation."""

LONGEST_AVERAGE_SECONDS = 3600

METRICS_SERVER_SPELLINGS = frozenset({"metrics-server", "metrics_server", "kubernetesmetrics"})
"""Also as Volcano and kubernetes-sigs spell it."""


def _metrics_type(value: object) -> str:
    if value is None:
        raise refusal(
            'is null, so there is no load to act on; write "prometheus", and the URL of your '
            'Prometheus as metrics.address, or "metrics-server"'
        )
    text = value.lower() if isinstance(value, str) else ""
    if text == "prometheus":
        return MetricsType.PROMETHEUS
    if text in METRICS_SERVER_SPELLINGS:
        return MetricsType.METRICS_SERVER
    if text == MetricsType.PROMETHEUS_ADAPTOR:
        return MetricsType.PROMETHEUS_ADAPTOR
    allowed = '"prometheus", "metrics-server" and "prometheus_adaptor"'
    raise refusal(f"found {quoted(value)}, allowed are {allowed}")


_MANAGED = {
    "azure": "tokens of Microsoft Entra; run its authorization proxy (aad-auth-proxy) in the "
    "cluster, and set metrics.address to its Service, such as "
    '"http://aad-auth-proxy.monitoring.svc:8081"',
}
"""What the managed services require, and what answers in their place."""


def _stack(value: object) -> PrometheusStack:
    text = value.lower() if isinstance(value, str) else ""
    if text in _MANAGED:
        raise refusal(
            f"found {quoted(value)}, a managed service that requires {_MANAGED[text]}; then "
            "remove metrics.stack"
        )
    try:
        return PrometheusStack(text)
    except ValueError:
        allowed = ", ".join(f'"{each}"' for each in PrometheusStack)
        raise refusal(f"found {quoted(value)}, allowed are {allowed}") from None


Query = Annotated[str, Field(min_length=1)]


class Queries(Section):
    """Own PromQL in place of the built-in queries.

    `{window}` stands for the window, such as `5m`.
    """

    node_cpu: Query | None = optional(
        example="avg_over_time(node:cpu_utilisation:ratio[{window}])", alias="nodeCPU"
    )
    """CPU use of each node as a share of its capacity, 0 to 1."""
    node_memory: Query | None = optional(
        example="avg_over_time(node:memory_utilisation:ratio[{window}])"
    )
    """Memory use of each node as a share of its capacity, 0 to 1."""
    pod_cpu: Query | None = optional(
        example="avg_over_time(pod:cpu_usage:cores[{window}])", alias="podCPU"
    )
    """CPU use of each pod in cores, with the labels `namespace` and `pod`."""
    pod_memory: Query | None = optional(
        example="avg_over_time(pod:memory_working_set:bytes[{window}])"
    )
    """Memory use of each pod in bytes, with the labels `namespace` and `pod`."""
    node_cpu_destination: Query | None = optional(
        example="quantile_over_time(0.95, node:cpu_utilisation:ratio[{window}])",
        alias="nodeCPUDestination",
    )
    """CPU use by which a destination is judged, as a share of capacity, for one window in
    `destinationWindows`; for example a recorded percentile."""
    node_memory_destination: Query | None = optional(
        example="quantile_over_time(0.95, node:memory_utilisation:ratio[{window}])"
    )
    """Memory use by which a destination is judged, like `nodeCPUDestination`."""


Source = Annotated[str, Field(min_length=1)]


class Sources(Section):
    """Whose series count, as matchers in PromQL, in place of the usual job names.

    Any scraped pod can expose metrics of the same names. Name a label that only the scrape
    configuration sets.
    """

    node_cpu: Source | None = optional(example='job="my-node-exporter"', alias="nodeCPU")
    """CPU of nodes."""
    node_memory: Source | None = optional(example='job="my-node-exporter"')
    """Memory of nodes."""
    node_gpu: Source | None = optional(example='job="my-dcgm-exporter"', alias="nodeGPU")
    """GPUs of nodes, by DCGM's exporter."""
    pod_cpu: Source | None = optional(
        example='job="kubelet",metrics_path="/metrics/cadvisor"', alias="podCPU"
    )
    """CPU of pods."""
    pod_memory: Source | None = optional(example='job="kubelet",metrics_path="/metrics/cadvisor"')
    """Memory of pods."""


class Metrics(Section):
    """Where load comes from."""

    type: Annotated[
        str,
        Form(
            _metrics_type,
            {
                "type": "string",
                "enum": [
                    "prometheus",
                    "Prometheus",
                    "metrics-server",
                    "metrics_server",
                    "KubernetesMetrics",
                    "prometheus_adaptor",
                ],
            },
        ),
    ]
    """`prometheus`, `metrics-server` or `prometheus_adaptor`; upper and lower case are the same.
    `metrics_server` and `KubernetesMetrics` mean `metrics-server`. `prometheus_adaptor` is the
    custom metrics API with Volcano's metrics of nodes, `node_cpu_usage_avg` and
    `node_memory_usage_avg`, and metrics-server for pods. These two have no history: a service
    collects its own samples, and evicts nothing before they cover the windows."""
    averaged_over: Annotated[int, lasting(0, LONGEST_AVERAGE_SECONDS)] | None = optional(
        seconds=VOLCANO_AVERAGE_SECONDS, example="5m"
    )
    """With `prometheus_adaptor`: the range over which the rules of the adapter average, such as
    `[10m:30s]`. Windows must be longer by two minutes; by default they are longer by five."""
    address: str | None = optional(
        example="http://prometheus-server.kube-system.svc.cluster.local:80"
    )
    """URL of Prometheus, or of a server with the same API (Thanos, Mimir, …). Optional if
    `--prometheus-url` sets it. Never put credentials here."""
    stack: (
        Annotated[
            PrometheusStack,
            Form(_stack, {"type": "string", "enum": [each.value for each in PrometheusStack]}),
        ]
        | None
    ) = optional(example="kube-prometheus-stack")
    """In place of `address`: the stack whose Service in `namespace` is read, with the port and the
    path that are usual for it. It is found by its labels; `auto` is the Service of any known
    stack. If several match, none is read. With `openshift`, desched identifies itself by the token
    of its own account, which needs the ClusterRole `cluster-monitoring-view`. `gmp` is Google's
    managed Prometheus, and `amp` Amazon's: they are read at `address`, by an account of theirs.
    `azure` is refused, with what to put in front of it."""
    namespace: NamespaceName | None = optional(example="monitoring")
    """The namespace of the stack, required with `stack` except `gmp` and `amp`, because tenants can
    give Services in their namespaces any labels. OpenShift's is always `openshift-monitoring`."""
    tenant: (
        Annotated[
            str, matching(r"[A-Za-z0-9!_.*'()|-]{1,150}", "the ID of a tenant of Mimir is allowed")
        ]
        | None
    ) = optional(example="team-a")
    """The tenant of Mimir whose data is read, sent as the header `X-Scope-OrgID`; with
    `stack: mimir` or an address."""
    queries: Queries | None = optional(
        example={"nodeCPU": "avg_over_time(node:cpu_utilisation:ratio[{window}])"}
    )
    """Own PromQL in place of built-in queries."""
    matchers: dict[str, str] | None = optional(example={"cluster": "prod-eu1"})
    """Labels and their values, added to every built-in query; required if one Prometheus holds
    several clusters."""
    sources: Sources | None = optional(example={"podCPU": 'job="my-cadvisor"'})
    """Whose series count for built-in queries; by default the kubelet's cAdvisor and node_exporter
    by the job names of the usual stacks."""
