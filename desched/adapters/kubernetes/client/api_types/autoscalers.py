"""HorizontalPodAutoscalers."""

import msgspec

from desched.adapters.kubernetes.client.api_types.metadata import Int32, Named, Time, Wire


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
