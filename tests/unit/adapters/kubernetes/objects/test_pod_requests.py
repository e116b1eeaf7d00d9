"""What a pod requests, against the scheduler's own rules."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import pods
from desched.adapters.kubernetes.objects.pod_requests import (
    node_amounts,
    pod_requests,
    scored_requests,
)
from desched.model.bounds import LARGEST_AMOUNT
from desched.model.resources import Amounts

MI = 2**20


def container(
    name: str = "app",
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    sidecar: bool = False,
    **requests: str,
) -> dict[str, Any]:
    """Requests it, and `more` whose names are no identifiers."""
    found: dict[str, Any] = {"name": name, "resources": {"requests": {**requests, **more}}}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def requests_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Amounts:
    return pod_requests(
        msgspec.json.decode(msgspec.json.encode(spec), type=pods.PodSpec),
        msgspec.json.decode(msgspec.json.encode(status or {}), type=pods.PodStatus),
    )


def cpu(spec: dict[str, Any], status: dict[str, Any] | None = None) -> int:
    return requests_of(spec, status).cpu_millicores


def test_the_containers_of_a_pod_add_up() -> None:
    spec = {
        "containers": [
            container("a", cpu="250m", memory="64Mi"),
            container("b", {"ephemeral-storage": "1Gi"}, cpu="1.5", memory="1G"),
        ]
    }

    assert requests_of(spec) == Amounts(
        cpu_millicores=1750,
        memory_bytes=64 * MI + 10**9,
        ephemeral_storage_bytes=1024 * MI,
        pods=1,
    )


@pytest.mark.parametrize("resources", [{}, None, {"requests": None}, {"limits": {"cpu": "1"}}])
def test_a_container_without_requests_requests_nothing(resources: object) -> None:
    assert requests_of({"containers": [{"name": "a", "resources": resources}]}) == Amounts(pods=1)


def test_other_resources_are_kept_by_name() -> None:
    spec = {"containers": [container("app", {"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"})]}

    assert requests_of(spec).extended == (("hugepages-2Mi", 4 * MI), ("nvidia.com/gpu", 2))


def test_a_fraction_of_a_unit_counts_as_a_whole_one() -> None:
    assert requests_of({"containers": [container(cpu="0.5m", memory="100m")]}) == Amounts(
        cpu_millicores=1, memory_bytes=1, pods=1
    )


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ([container("i", cpu="200m")], 300),  # they run before: the sum of the apps is more
        ([container("i", cpu="900m")], 900),
        ([container("i", cpu="400m"), container("j", cpu="600m")], 600),  # one after the other
        ([container("s", cpu="100m", sidecar=True)], 400),
        ([container("s", cpu="100m", sidecar=True), container("i", cpu="350m")], 450),
        ([container("i", cpu="350m"), container("s", cpu="100m", sidecar=True)], 400),
        (
            [
                container("s", cpu="1", sidecar=True),
                container("t", cpu="2", sidecar=True),
                container("i", cpu="1"),
            ],
            4000,
        ),
    ],
)
def test_init_containers_and_sidecars_count_as_they_run(
    init: list[dict[str, Any]], expected: int
) -> None:
    apps = [container("a", cpu="100m"), container("b", cpu="200m")]

    assert cpu({"containers": apps, "initContainers": init}) == expected


def test_each_resource_has_its_own_maximum() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Mi")],
        "initContainers": [container("i", cpu="100m", memory="5Mi")],
    }

    assert requests_of(spec) == Amounts(cpu_millicores=1000, memory_bytes=5 * MI, pods=1)


def test_overhead_of_the_runtime_is_added() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Mi")],
        "overhead": {"cpu": "250m", "memory": "120Mi"},
    }

    assert requests_of(spec) == Amounts(cpu_millicores=1250, memory_bytes=121 * MI, pods=1)


def test_huge_pages_of_the_pod_as_a_whole_replace_those_of_its_containers() -> None:
    spec = {
        "containers": [container("app", {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"})],
        "resources": {"requests": {"hugepages-2Mi": "8Mi"}},
    }

    assert requests_of(spec).extended == (("hugepages-1Gi", 1024 * MI), ("hugepages-2Mi", 8 * MI))


def test_requests_of_the_pod_as_a_whole_replace_those_of_its_containers() -> None:
    spec = {
        "containers": [container("app", {"nvidia.com/gpu": "1"}, cpu="1", memory="1Mi")],
        "resources": {"requests": {"cpu": "3", "memory": "2Mi", "nvidia.com/gpu": "7"}},
        "overhead": {"cpu": "100m"},
    }

    assert requests_of(spec) == Amounts(
        cpu_millicores=3100, memory_bytes=2 * MI, pods=1, extended=(("nvidia.com/gpu", 1),)
    )


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = INFEASIBLE | {"reason": "Deferred"}


@pytest.mark.parametrize(
    ("actual", "allocated", "conditions", "expected"),
    [
        ("100m", "100m", [], 500),  # the wanted size counts at once
        ("900m", "500m", [], 900),  # shrinking: what it still has counts
        ("100m", "700m", [], 700),
        ("100m", "200m", [DEFERRED], 500),
        ("100m", "200m", [INFEASIBLE], 200),  # it will not get what it wants
    ],
)
def test_a_container_being_resized_counts_with_the_most(
    actual: str, allocated: str, conditions: list[dict[str, str]], expected: int
) -> None:
    status = {
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": "app",
                "resources": {"requests": {"cpu": actual}},
                "allocatedResources": {"cpu": allocated},
            }
        ],
    }

    assert cpu({"containers": [container(cpu="500m")]}, status) == expected


def test_allocated_resources_alone_say_nothing_as_in_the_scheduler() -> None:
    status = {"containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "2"}}]}

    assert cpu({"containers": [container(cpu="500m")]}, status) == 500


def test_a_sidecar_is_resized_but_another_init_container_is_not() -> None:
    status = {
        "initContainerStatuses": [
            {"name": "s", "resources": {"requests": {"cpu": "2"}}},
            {"name": "i", "resources": {"requests": {"cpu": "9"}}},
        ]
    }
    spec = {
        "containers": [container(cpu="100m")],
        "initContainers": [container("i", cpu="50m"), container("s", cpu="10m", sidecar=True)],
    }

    assert cpu(spec, status) == 2100


def test_a_pod_being_resized_as_a_whole_counts_with_the_most() -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "3"}}

    assert cpu(spec, status) == 5000


def scored(spec: dict[str, Any], status: dict[str, Any] | None = None) -> tuple[int, int]:
    """Millicores and MiB."""
    found = scored_requests(
        msgspec.json.decode(msgspec.json.encode(spec), type=pods.PodSpec),
        msgspec.json.decode(msgspec.json.encode(status or {}), type=pods.PodStatus),
    )
    return found.cpu_millicores, found.memory_bytes // MI


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container(cpu="1", memory="1Gi")], (1000, 1024)),
        ([container()], (100, 200)),
        ([container(cpu="1")], (1000, 200)),
        ([container(cpu="0", memory="0")], (0, 0)),  # said so, and is believed
        ([container("a"), container("b", memory="50Mi"), container("c", cpu="10m")], (210, 450)),
    ],
)
def test_each_container_without_a_request_scores_with_a_default(
    containers: list[dict[str, Any]], expected: tuple[int, int]
) -> None:
    assert scored({"containers": containers}) == expected


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ([container("i")], (100, 200)),  # runs before, and needs no more than the app
        ([container("i", cpu="2")], (2000, 200)),
        ([container("s", sidecar=True)], (200, 400)),
        ([container("s", sidecar=True), container("i", cpu="300m")], (400, 400)),
    ],
)
def test_init_containers_and_sidecars_score_with_defaults_too(
    init: list[dict[str, Any]], expected: tuple[int, int]
) -> None:
    assert scored({"containers": [container()], "initContainers": init}) == expected


def test_overhead_is_scored_above_the_defaults() -> None:
    spec = {"containers": [container()], "overhead": {"cpu": "50m", "memory": "8Mi"}}

    assert scored(spec) == (150, 208)


def test_what_the_pod_requests_as_a_whole_is_scored_in_place_of_defaults() -> None:
    spec = {"containers": [container(), container("b")], "resources": {"requests": {"cpu": "50m"}}}

    assert scored(spec) == (50, 400)


def test_a_container_being_resized_scores_with_the_most() -> None:
    status = {"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}

    assert scored({"containers": [container(cpu="500m")]}, status) == (2000, 200)


def test_an_absurd_amount_is_capped_so_that_sums_stay_in_64_bits() -> None:
    spec = {"containers": [container("a", memory="9000E"), container("b", memory="9000E")]}

    assert requests_of(spec).memory_bytes == LARGEST_AMOUNT


def test_what_a_node_offers_is_rounded_down() -> None:
    offered = {"cpu": "3920500u", "memory": "1500m", "pods": "110", "example.com/fpga": "1"}

    assert node_amounts(offered) == Amounts(
        cpu_millicores=3920, memory_bytes=1, pods=110, extended=(("example.com/fpga", 1),)
    )
