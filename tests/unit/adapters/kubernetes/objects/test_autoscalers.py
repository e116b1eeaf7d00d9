from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import autoscalers
from desched.adapters.kubernetes.objects.autoscalers import (
    Scaling,
    scaling_by_target,
    scaling_of_target,
)
from desched.model.cluster import Autoscaler
from tests.unit.adapters.kubernetes import manifests

WEB = ("Deployment", "shop", "web")


def scaling(*documents: manifests.Object) -> Scaling:
    items = msgspec.convert(documents, list[autoscalers.HorizontalPodAutoscaler])
    return scaling_by_target(map(scaling_of_target, items))[WEB]


def test_all_of_an_autoscaler_is_kept() -> None:
    document = manifests.autoscaler(3, 5)
    document["status"]["lastScaleTime"] = manifests.CREATED
    item = msgspec.json.decode(
        msgspec.json.encode(document), type=autoscalers.HorizontalPodAutoscaler
    )

    assert scaling_of_target(item) == (
        WEB,
        Scaling(Autoscaler(3, 5, 9, datetime(2026, 1, 10, 8, tzinfo=UTC)), under_way=True),
    )


def test_of_two_autoscalers_over_one_workload_the_one_at_work_counts() -> None:
    settling, working = manifests.autoscaler(3, 3), manifests.autoscaler(3, 5)

    assert scaling(settling, working).under_way
    assert scaling(working, settling).under_way


def metric(kind: str, **source: Any) -> dict[str, Any]:
    return {"type": kind, kind[0].lower() + kind[1:]: source}


def above_target(specified: list[dict[str, Any]], measured: list[dict[str, Any]] | None) -> bool:
    document = manifests.autoscaler(9, 9, metrics=specified)
    document["status"]["currentMetrics"] = measured
    return scaling(document).autoscaler.above_target


def cpu(side: str, **value: Any) -> dict[str, Any]:
    return metric("Resource", name="cpu", **{side: value})


@pytest.mark.parametrize(
    ("target", "current", "expected"),
    [
        ({"averageUtilization": 80}, {"averageUtilization": 81, "averageValue": "400m"}, True),
        ({"averageUtilization": 80}, {"averageUtilization": 80, "averageValue": "400m"}, False),
        ({"averageUtilization": 80}, {"averageValue": "400m"}, False),
        ({"averageValue": "1"}, {"averageUtilization": 30, "averageValue": "1001m"}, True),
        ({"averageValue": "1"}, {"averageValue": "1000m"}, False),
    ],
)
def test_a_resource_is_compared_as_its_target_is_given(
    target: dict[str, Any], current: dict[str, Any], *, expected: bool
) -> None:
    assert above_target([cpu("target", **target)], [cpu("current", **current)]) is expected


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Pods", {"metric": {"name": "requests"}}),
        ("Object", {"metric": {"name": "requests"}, "describedObject": {"kind": "Ingress"}}),
        ("External", {"metric": {"name": "queue", "selector": {}}}),
        ("ContainerResource", {"name": "cpu", "container": "app"}),
    ],
)
@pytest.mark.parametrize("quantity", ["averageValue", "value"])
def test_every_kind_of_metric_is_compared(kind: str, name: dict[str, Any], quantity: str) -> None:
    specified = [metric(kind, **name, target={quantity: "10"})]

    assert above_target(specified, [metric(kind, **name, current={quantity: "11"})])
    assert not above_target(specified, [metric(kind, **name, current={quantity: "9500m"})])


def test_one_metric_above_its_target_is_enough() -> None:
    low = metric("Resource", name="memory", target={"averageUtilization": 50})
    measured = metric("Resource", name="memory", current={"averageUtilization": 20})

    assert above_target(
        [low, cpu("target", averageUtilization=50)],
        [measured, cpu("current", averageUtilization=90)],
    )


@pytest.mark.parametrize(
    "measured",
    [
        None,
        [],
        [{"type": ""}],
        [metric("Resource", name="memory", current={"averageUtilization": 99})],
    ],
)
def test_a_metric_without_a_reading_of_its_own_does_not_count(
    measured: list[dict[str, Any]] | None,
) -> None:
    assert not above_target([cpu("target", averageUtilization=50)], measured)
