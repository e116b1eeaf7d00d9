"""HorizontalPodAutoscalers and VerticalPodAutoscalers."""

import msgspec
from msgspec import Raw

from desched.api_objects.metadata import Int32, Named, Time, Wire


class ScaleTarget(Wire):
    kind: str
    name: str


class MetricName(Wire):
    name: str


class MetricValue(Wire):
    average_utilization: Int32 | None = None
    average_value: str | None = None
    value: str | None = None


class MetricSource(Wire):
    """One measure of an autoscaler: its specification has a target, its status a current value."""

    name: str | None = None
    metric: MetricName | None = None
    target: MetricValue | None = None
    current: MetricValue | None = None


class Metric(Wire):
    type: str = ""
    resource: MetricSource | None = None
    container_resource: MetricSource | None = None
    pods: MetricSource | None = None
    object: MetricSource | None = None
    external: MetricSource | None = None


class AutoscalerSpec(Wire):
    scale_target_ref: ScaleTarget
    max_replicas: Int32
    min_replicas: Int32 | None = None
    metrics: list[Metric] | None = None


class AutoscalerStatus(Wire):
    current_replicas: Int32 | None = None
    desired_replicas: Int32 | None = None
    last_scale_time: Time | None = None
    current_metrics: list[Metric] | None = None


class HorizontalPodAutoscaler(Named):
    spec: AutoscalerSpec
    status: AutoscalerStatus = msgspec.field(default_factory=AutoscalerStatus)


class VerticalPodAutoscaler(Named):
    """Its schema is that of whoever installed its CustomResourceDefinition."""

    spec: Raw = Raw()
    status: Raw = Raw()


class VerticalTarget(Wire):
    target_ref: ScaleTarget | None = None


class Strict(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Fields that a later version adds may change what pods request, so they are an error."""


Quantities = dict[str, str | int] | None


class UpdatePolicy(Strict):
    update_mode: str | None = None
    min_replicas: Raw = Raw()
    eviction_requirements: Raw = Raw()
    evict_after_oom_seconds: Raw = msgspec.field(default=Raw(), name="evictAfterOOMSeconds")


class ContainerPolicy(Strict):
    container_name: str = ""
    mode: str | None = None
    min_allowed: Quantities = None
    max_allowed: Quantities = None
    controlled_resources: list[str] | None = None
    controlled_values: str | None = None
    startup_boost: Raw = Raw()
    oom_bump_up_ratio: Raw = Raw()
    oom_min_bump_up: Raw = Raw()
    memory_aggregation_interval_seconds: Raw = Raw()
    memory_aggregation_interval_count: Raw = Raw()


class ResourcePolicy(Strict):
    container_policies: list[ContainerPolicy] | None = None


class VerticalSpec(Strict):
    target_ref: Raw = Raw()
    update_policy: UpdatePolicy | None = None
    resource_policy: ResourcePolicy | None = None
    recommenders: Raw = Raw()
    startup_boost: Raw = Raw()


class ContainerRecommendation(Strict):
    container_name: str = ""
    target: Quantities = None
    lower_bound: Raw = Raw()
    upper_bound: Raw = Raw()
    uncapped_target: Raw = Raw()


class Recommendation(Strict):
    container_recommendations: list[ContainerRecommendation] | None = None


class VerticalStatus(Wire):
    recommendation: Recommendation | None = None
