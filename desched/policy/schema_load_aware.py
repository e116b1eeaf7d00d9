"""The arguments of the plugin LoadAware: Volcano's keys, and desched's own."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from desched.policy.durations import duration_text
from desched.policy.schema_values import (
    DURATION_SCHEMA,
    Count,
    LabelSelectorSection,
    NamespaceName,
    Percent,
    PluginArgs,
    PriorityThresholdSection,
    Seconds,
    Section,
    SelectorText,
    default_is,
    one_or_many,
    refusal,
)
from desched.policy.wording import quoted

DEFAULT_WINDOW_SECONDS = 300
"""Five samples where Prometheus scrapes once a minute, as its community chart does."""
DEFAULT_STOP_MARGIN = 5.0
DEFAULT_CEILING_MARGIN = 10.0
DEFAULT_NODE_LIMIT = 2
DEFAULT_WORKLOAD_LIMIT = 1


class ResourcePercentages(Section):
    """A percentage for each resource that is watched; at least one."""

    key_noun = "resource"

    cpu: Percent | None = Field(default=None, description="CPU, percent of the node's capacity.")
    memory: Percent | None = Field(
        default=None, description="Memory, percent of the node's capacity."
    )
    pods: Percent | None = Field(
        default=None, description="Number of pods, percent of the node's allocatable pods."
    )


def _metrics_type(value: object) -> str:
    if value is None:
        raise refusal(
            "is null, so there is no load to act on; "
            'write "prometheus", and the URL of your Prometheus as metrics.address'
        )
    text = value.lower() if isinstance(value, str) else ""
    if text == "prometheus":
        return "prometheus"
    if text == "prometheus_adaptor":
        raise refusal(
            f"found {quoted(value)}, which reads the custom metrics API; desched does not: write "
            '"type: prometheus" and as metrics.address the URL of the Prometheus behind the adapter'
        )
    raise refusal(f'found {quoted(value)}, allowed is "prometheus"')


class Queries(Section):
    """Own PromQL in place of the built-in queries.

    `{window}` stands for the window, such as `5m`.
    """

    node_cpu: str | None = Field(
        default=None,
        alias="nodeCPU",
        min_length=1,
        description="CPU use of each node as a share of its capacity, 0 to 1.",
    )
    node_memory: str | None = Field(
        default=None,
        min_length=1,
        description="Memory use of each node as a share of its capacity, 0 to 1.",
    )
    pod_cpu: str | None = Field(
        default=None,
        alias="podCPU",
        min_length=1,
        description="CPU use of each pod in cores, with the labels `namespace` and `pod`.",
    )
    pod_memory: str | None = Field(
        default=None,
        min_length=1,
        description="Memory use of each pod in bytes, with the labels `namespace` and `pod`.",
    )


class Metrics(Section):
    """Where load comes from."""

    type: Annotated[
        Literal["prometheus"],
        BeforeValidator(_metrics_type),
        WithJsonSchema({"type": "string", "enum": ["prometheus", "Prometheus"]}),
    ] = Field(description="`prometheus`; upper and lower case are the same.")
    address: str | None = Field(
        default=None,
        description="URL of Prometheus, or of what speaks its API (Thanos, Mimir, …). May be left "
        "out where `--prometheus-url` gives it. Credentials never belong here.",
        examples=["http://prometheus-server.kube-system.svc.cluster.local:80"],
    )
    queries: Queries | None = Field(
        default=None, description="Own PromQL in place of built-in queries."
    )
    matchers: dict[str, str] | None = Field(
        default=None,
        description="Labels and their values, put into every built-in query; needed where one "
        "Prometheus holds several clusters.",
        examples=[{"cluster": "prod-eu1"}],
    )


class EvictableNamespaces(Section):
    """Whose pods may move: those of some namespaces, or of all but some."""

    include: tuple[NamespaceName, ...] | None = Field(
        default=None, description="Only pods of these namespaces may move; instead of `exclude`."
    )
    exclude: tuple[NamespaceName, ...] | None = Field(
        default=None, description="Pods of these namespaces stay."
    )


WindowList = Annotated[
    tuple[Seconds, ...],
    BeforeValidator(one_or_many),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [DURATION_SCHEMA, {"type": "array", "items": DURATION_SCHEMA, "minItems": 1}]}
    ),
]


class Windows(Section):
    """Over which times load is measured; a node is overloaded only if it is in all of them."""

    cpu: WindowList | None = Field(
        default=None, description="Windows for CPU, one or several. Default: `duration`."
    )
    memory: WindowList | None = Field(
        default=None, description="Windows for memory, one or several. Default: `duration`."
    )


class EvictionLimitsSection(Section):
    """The most evictions of one cycle."""

    total: Count | None = Field(
        default=None,
        description="In the whole cluster. Default: 5, or 1 % of the nodes where that is more.",
    )
    node: Count | None = Field(default=DEFAULT_NODE_LIMIT, description="From one node.")
    namespace: Count | None = Field(
        default=None, description="From one namespace. Default: no limit."
    )
    workload: Count | None = Field(
        default=DEFAULT_WORKLOAD_LIMIT, description="Of one workload (Deployment, StatefulSet, …)."
    )


class LoadAwareArgs(PluginArgs):
    """When a node is overloaded, and which of its pods may move."""

    use_deviation_thresholds: bool | None = Field(
        default=False,
        description="Read both thresholds as distances in percentage points below and above the "
        "mean load of all nodes.",
    )
    thresholds: ResourcePercentages = Field(
        description="Load in percent below which, in every resource, a node counts as underloaded."
    )
    target_thresholds: ResourcePercentages = Field(
        description="Load in percent above which, in any resource, a node is overloaded. "
        "The same resources as in `thresholds`."
    )
    number_of_nodes: Count | None = Field(
        default=0, description="Evict only while more nodes than this are underloaded; 0: always."
    )
    node_selector: SelectorText | None = Field(
        default=None,
        description="Label selector of the nodes that are looked at, as sources and destinations.",
    )
    evict_local_storage_pods: bool | None = Field(
        default=None,
        description="Whether pods with an emptyDir or hostPath volume may move. "
        "As in every key that DefaultEvictor has too, the more protective holds.",
        json_schema_extra=default_is(value=False),
    )
    evict_system_critical_pods: bool | None = Field(
        default=None,
        description="Whether pods of system-critical priority may move; "
        "`priorityThreshold` holds regardless.",
        json_schema_extra=default_is(value=False),
    )
    ignore_pvc_pods: bool | None = Field(
        default=None,
        description="Whether pods with a PersistentVolumeClaim stay.",
        json_schema_extra=default_is(value=False),
    )
    evict_failed_bare_pods: bool | None = Field(
        default=None,
        description="Whether failed pods without a controller may go.",
        json_schema_extra=default_is(value=False),
    )
    label_selector: LabelSelectorSection | None = Field(
        default=None, description="Only pods with these labels may move."
    )
    priority_threshold: PriorityThresholdSection | None = Field(
        default=None, description="Pods of this priority and above stay; the lower of both holds."
    )
    node_fit: bool | None = Field(
        default=None, description="Accepted; whether a pod fits elsewhere is always checked."
    )
    evictable_namespaces: EvictableNamespaces | None = Field(
        default=None, description="Whose pods may move. Default: those of all namespaces."
    )
    metrics: Metrics = Field(description="Where load comes from.")
    duration: Seconds | None = Field(
        default=None,
        description="One window for CPU and memory, where `windows` does not say otherwise.",
        json_schema_extra=default_is(duration_text(DEFAULT_WINDOW_SECONDS)),
    )
    windows: Windows | None = Field(
        default=None, description="Over which times load is measured, by resource."
    )
    eviction_limits: EvictionLimitsSection | None = Field(
        default=None, description="The most evictions of one cycle."
    )
    stop_margin: Percent | None = Field(
        default=None,
        description="Percentage points under the target at which relief of a node ends. "
        "The default is half of the target where that is less.",
        json_schema_extra=default_is(DEFAULT_STOP_MARGIN),
    )
    ceiling_margin: Percent | None = Field(
        default=None,
        description="Percentage points under the target up to which a destination is filled; at "
        "least `stopMargin`. The default is the target where that is less.",
        json_schema_extra=default_is(DEFAULT_CEILING_MARGIN),
    )
