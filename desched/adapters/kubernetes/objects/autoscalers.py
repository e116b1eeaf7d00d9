"""HorizontalPodAutoscalers and the workloads that they scale, in the model's terms."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from desched.adapters.kubernetes.client.access import LIST_AUTOSCALERS
from desched.adapters.kubernetes.client.api_types import autoscalers
from desched.api_objects.kinds import Kind
from desched.model.cluster import Autoscaler
from desched.model.resources import quantity
from desched.planning.eligibility.controllers import LONGEST_NAME

Target = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


class Scaling(NamedTuple):
    """An autoscaler, and whether it is changing the number of replicas."""

    autoscaler: Autoscaler
    under_way: bool


def scaling_of_target(item: autoscalers.HorizontalPodAutoscaler) -> tuple[Target, Scaling]:
    """The workload, and how it is being scaled."""
    reference, spec, status = item.spec.scale_target_ref, item.spec, item.status
    current, desired = status.current_replicas or 0, status.desired_replicas or 0
    autoscaler = Autoscaler(
        current_replicas=current,
        desired_replicas=desired,
        max_replicas=spec.max_replicas,
        last_scaled_at=status.last_scale_time,
        above_target=_is_above_target(spec.metrics or [], status.current_metrics or []),
    )
    # With zero desired replicas it has not measured yet, unless it may scale to zero.
    under_way = desired != current and (desired > 0 or spec.min_replicas == 0)
    # No workload has a longer name.
    kind, name = (text[: LONGEST_NAME + 1] for text in (reference.kind, reference.name))
    return (kind, item.metadata.namespace, name), Scaling(autoscaler, under_way)


def scaling_by_target(scalings: Iterable[tuple[Target, Scaling]]) -> Mapping[Target, Scaling]:
    """By workload; if several autoscalers target one workload, an active one wins."""
    return dict(sorted(scalings, key=lambda item: item[1].under_way))


def _is_above_target(
    specified: list[autoscalers.Metric], measured: list[autoscalers.Metric]
) -> bool:
    """Whether any metric is; the status lists them in the order of the specification.

    A metric that could not be measured has an empty entry and does not count.
    """
    return any(
        _exceeds(source.target, reading.current)
        for source, reading in zip(map(_source, specified), map(_source, measured), strict=False)
        if source is not None and reading is not None and _name(source) == _name(reading)
    )


def _source(metric: autoscalers.Metric) -> autoscalers.MetricSource | None:
    sources = (metric.resource, metric.container_resource, metric.pods, metric.object)
    return next(filter(None, sources), metric.external)


def _name(source: autoscalers.MetricSource) -> str | None:
    return source.metric.name if source.metric is not None else source.name


def _exceeds(
    target: autoscalers.MetricValue | None, current: autoscalers.MetricValue | None
) -> bool:
    if target is None or current is None:
        return False
    if target.average_utilization is not None:
        return (current.average_utilization or 0) > target.average_utilization
    return any(
        quantity(now, per_unit=1000) > quantity(limit, per_unit=1000)
        for now, limit in (
            (current.average_value, target.average_value),
            (current.value, target.value),
        )
        if now is not None and limit is not None
    )


AUTOSCALERS = Kind(
    LIST_AUTOSCALERS, autoscalers.HorizontalPodAutoscaler, scaling_of_target, may_be_absent=True
)
