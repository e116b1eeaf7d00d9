"""What VerticalPodAutoscalers write into new pods.

Source: k8s.io/autoscaler/vertical-pod-autoscaler/pkg, admission-controller/resource/pod and
utils/vpa, at v1.8.1. LimitRanges, which its webhook also applies, are not read.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw

from desched.adapters.kubernetes.client.access import LIST_VERTICAL_AUTOSCALERS
from desched.adapters.kubernetes.client.api_types import autoscalers, pods
from desched.adapters.kubernetes.objects.autoscalers import Target
from desched.adapters.kubernetes.objects.pod_requests import (
    Requests,
    container_limits,
    parsed,
    with_requests,
)
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind
from desched.model.groups import grouped
from desched.model.text import shortened
from desched.planning.eligibility.controllers import LONGEST_NAME

LARGEST_BYTES = 64 * 2**10
"""The JSON of a VerticalPodAutoscaler that is read; tenants write it."""

_TARGET = RawDecoder(autoscalers.VerticalTarget)
_SPEC = RawDecoder(autoscalers.VerticalSpec)
_STATUS = RawDecoder(autoscalers.VerticalStatus)

_OFF = "Off"
_UPDATE_MODES = frozenset({_OFF, "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace"})
_CONTAINER_MODES = frozenset({_OFF, "Auto"})
_REQUESTS_ONLY = "RequestsOnly"
_CONTROLLED_VALUES = frozenset({_REQUESTS_ONLY, "RequestsAndLimits"})
_OF_ALL_OTHERS = "*"
"""The name of the policy for containers without one of their own."""


class Recommended(NamedTuple):
    """What a container will request; `within_limits` if its limits stay as they are."""

    requests: Requests
    within_limits: bool


class VerticalAutoscaler(NamedTuple):
    """A VerticalPodAutoscaler that sizes new pods; `problem` is why it is not known how."""

    name: str
    by_container: Mapping[str, Recommended]
    problem: str = ""

    def sized(self, template: pods.PodSpec) -> pods.PodSpec:
        """The specification of a new pod."""
        containers = [self._sized(container) for container in template.containers]
        return msgspec.structs.replace(template, containers=containers)

    def _sized(self, container: pods.Container) -> pods.Container:
        recommended = self.by_container.get(container.name)
        if recommended is None:
            return container
        requests = dict(recommended.requests)
        if recommended.within_limits:
            limits = container_limits(container)
            requests = {name: min(n, limits.get(name, n)) for name, n in requests.items()}
        return with_requests(container, requests)


def sizing_of_target(
    item: autoscalers.VerticalPodAutoscaler,
) -> tuple[Target, VerticalAutoscaler] | None:
    """The workload, and how its new pods are sized; None if they are not.

    Without a target that can be read, a VerticalPodAutoscaler sizes nothing. Whatever else cannot
    be read is a problem for its target alone: its author may be a tenant.
    """
    namespace, name = item.metadata.namespace, item.metadata.name
    try:
        targeted = _TARGET(item.spec)
    except UNDECODABLE:
        return None
    reference = targeted.target_ref if targeted is not None else None
    if reference is None:
        return None
    if max(len(reference.kind), len(reference.name)) > LONGEST_NAME:
        return None  # there is no such workload
    sizing = _sizing(name, item)
    return sizing and ((reference.kind, namespace, reference.name), sizing)


def sizing_by_target(
    sizings: Iterable[tuple[Target, VerticalAutoscaler] | None],
) -> Mapping[Target, list[VerticalAutoscaler]]:
    """All that size the pods of a workload."""
    return grouped(sizing for sizing in sizings if sizing is not None)


def _sizing(name: str, item: autoscalers.VerticalPodAutoscaler) -> VerticalAutoscaler | None:
    size_bytes = len(bytes(item.spec)) + len(bytes(item.status))
    if size_bytes > LARGEST_BYTES:
        largest = LARGEST_BYTES >> 10
        return VerticalAutoscaler(name, {}, f"{size_bytes >> 10} KiB, more than {largest}")
    try:
        spec = _SPEC(item.spec) or autoscalers.VerticalSpec()
        if not _sizes_pods(spec):
            return None
        status = _STATUS(item.status) or autoscalers.VerticalStatus()
        return VerticalAutoscaler(name, _by_container(spec, status))
    except (*UNDECODABLE, ValueError) as error:
        return VerticalAutoscaler(name, {}, shortened(str(error)))


def _sizes_pods(spec: autoscalers.VerticalSpec) -> bool:
    """Whether it changes new pods at all.

    Raises:
        ValueError: it is not known how.
    """
    if _is_there(spec.startup_boost):
        raise ValueError("startupBoost")
    mode = spec.update_policy.update_mode if spec.update_policy is not None else None
    _require("updateMode", mode, _UPDATE_MODES)
    return mode != _OFF


def _by_container(
    spec: autoscalers.VerticalSpec, status: autoscalers.VerticalStatus
) -> dict[str, Recommended]:
    policies = _policies(spec)
    recommendation = status.recommendation or autoscalers.Recommendation()
    recommended: dict[str, Recommended] = {}
    for container_recommendation in recommendation.container_recommendations or ():
        policy = policies.get(container_recommendation.container_name) or policies.get(
            _OF_ALL_OTHERS
        )
        policy = policy or autoscalers.ContainerPolicy()
        if policy.mode != _OFF:
            only_requests = policy.controlled_values == _REQUESTS_ONLY
            recommended[container_recommendation.container_name] = Recommended(
                _target(container_recommendation, policy), only_requests
            )
    return recommended


def _policies(spec: autoscalers.VerticalSpec) -> dict[str, autoscalers.ContainerPolicy]:
    policies = spec.resource_policy.container_policies if spec.resource_policy is not None else None
    for policy in policies or ():
        _require("mode", policy.mode, _CONTAINER_MODES)
        _require("controlledValues", policy.controlled_values, _CONTROLLED_VALUES)
        if _is_there(policy.startup_boost):
            raise ValueError("startupBoost")
    return {policy.container_name: policy for policy in policies or ()}


def _target(
    recommended: autoscalers.ContainerRecommendation, policy: autoscalers.ContainerPolicy
) -> Requests:
    least, most = _amounts(policy.min_allowed), _amounts(policy.max_allowed)
    controlled = policy.controlled_resources
    requests: Requests = {}
    for name, amount in _amounts(recommended.target).items():
        if controlled is None or name in controlled:
            at_least = max(amount, least.get(name, 0))
            requests[name] = min(at_least, most.get(name) or at_least)
    return requests


def _amounts(quantities: autoscalers.Quantities) -> Requests:
    return parsed({name: str(quantity) for name, quantity in (quantities or {}).items() if name})


def _require(what: str, value: str | None, values: frozenset[str]) -> None:
    if value and value not in values:
        raise ValueError(f"{what} {value}")


def _is_there(raw: Raw) -> bool:
    return bytes(raw) not in {b"", b"null"}


def _read_bytes(item: autoscalers.VerticalPodAutoscaler) -> int:
    """Of a large one, nothing but its target is kept."""
    size_bytes = memoryview(item.spec).nbytes + memoryview(item.status).nbytes
    return 0 if size_bytes > LARGEST_BYTES else size_bytes


VERTICAL_AUTOSCALERS = Kind(
    LIST_VERTICAL_AUTOSCALERS,
    autoscalers.VerticalPodAutoscaler,
    sizing_of_target,
    is_optional=True,
    size_of=_read_bytes,
)
