"""What a pod requests, computed as kube-scheduler does.

Source: k8s.io/component-helpers/resource, PodRequests, at v0.36.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw

from desched.adapters.kubernetes.client.api_types import pods
from desched.api_objects.decoding import RawDecoder
from desched.api_objects.metadata import Condition
from desched.model.bounds import LARGEST_AMOUNT
from desched.model.resources import Amounts, quantity

_REQUIREMENTS = RawDecoder(pods.ResourceRequirements)
_QUANTITIES = RawDecoder(dict[str, str])

Requests = dict[str, int]
"""By resource name: CPU in millicores, everything else in its own unit."""

_SCORED_WHERE_UNSET: Requests = {"cpu": 100, "memory": 200 * 1024**2}


def node_amounts(quantities: Mapping[str, str] | None) -> Amounts:
    """The capacity or the allocatable resources of a node, rounded down."""
    return _amounts(parsed(quantities, round_up=False))


def pod_requests(spec: pods.PodSpec, status: pods.PodStatus) -> Amounts:
    """The requests that the scheduler's filters use, and one for the pod itself.

    A container being resized in place counts with the largest of wanted, actual and allocated; the
    wanted size does not count if the kubelet has found the resize infeasible.
    """
    total = _total(spec, status, unset={})
    total["pods"] = 1
    return _amounts(total)


def requests_of_template(spec: pods.PodSpec) -> pods.PodSpec:
    """The parts of a template that decide what its pods request; they refer to no other data.

    As the API server does for new pods, a limit is the request where there is none.
    """
    return pods.PodSpec(
        containers=[_completed(container) for container in spec.containers],
        init_containers=[
            _completed(init_container) for init_container in spec.init_containers or ()
        ],
        resources=spec.resources.copy(),
        overhead=spec.overhead.copy(),
    )


def _completed(container: pods.Container) -> pods.Container:
    limits = container_limits(container)
    missing = limits.keys() - _requests(container.resources).keys()
    kept = pods.Container(
        container.name,
        resources=container.resources.copy(),
        restart_policy=container.restart_policy,
    )
    return with_requests(kept, {name: limits[name] for name in missing}) if missing else kept


def container_limits(container: pods.Container) -> Requests:
    """The limits of a container that has some."""
    requirements = _REQUIREMENTS(container.resources)
    return parsed(requirements.limits) if requirements is not None else {}


def with_requests(container: pods.Container, requests: Requests) -> pods.Container:
    """The container with these requests instead of its own for the same resources."""
    texts = {name: f"{n}m" if name == "cpu" else str(n) for name, n in requests.items()}
    before = _REQUIREMENTS(container.resources) or pods.ResourceRequirements()
    after = pods.ResourceRequirements({**(before.requests or {}), **texts}, before.limits)
    return msgspec.structs.replace(container, resources=Raw(msgspec.json.encode(after)))


def scored_requests(spec: pods.PodSpec, status: pods.PodStatus) -> Amounts:
    """The CPU and memory that the scheduler's scores use.

    Each container without a request, init containers too, counts with a default. Source:
    k8s.io/kubernetes/pkg/scheduler/util, pod_resources.go, at v1.36.
    """
    total = _total(spec, status, unset=_SCORED_WHERE_UNSET)
    return Amounts(cpu_millicores=total.get("cpu", 0), memory_bytes=total.get("memory", 0))


def _total(spec: pods.PodSpec, status: pods.PodStatus, unset: Requests) -> Requests:
    """The pod's requests; `unset` is the default for a container without a request."""
    infeasible = _is_resize_infeasible(status.conditions or ())
    total = _container_requests(spec, status, unset, infeasible=infeasible)
    total.update(_pod_level_requests(spec, status, infeasible=infeasible))
    _add(total, _quantities(spec.overhead))
    return total


def _container_requests(
    spec: pods.PodSpec, status: pods.PodStatus, unset: Requests, *, infeasible: bool
) -> Requests:
    statuses = {s.name: s for s in status.container_statuses or ()}
    statuses.update({s.name: s for s in status.init_container_statuses or ()})

    def while_running(container: pods.Container) -> Requests:
        status = statuses.get(container.name)
        return unset | _effective(container.resources, status, infeasible=infeasible)

    running: Requests = {}
    for container in spec.containers:
        _add(running, while_running(container))
    sidecars: Requests = {}
    starting: Requests = {}
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            _add(running, while_running(container))
            _add(sidecars, while_running(container))
            _raise_to(starting, sidecars)
        else:
            alone = unset | _requests(container.resources)
            _add(alone, sidecars)
            _raise_to(starting, alone)
    _raise_to(running, starting)
    return running


def _effective(
    resources: Raw, status: pods.ContainerStatus | pods.PodStatus | None, *, infeasible: bool
) -> Requests:
    """The largest of wanted, actual and allocated; the wanted ones if there is no status."""
    wanted = _requests(resources)
    actual = _REQUIREMENTS(status.resources) if status is not None else None
    if status is None or actual is None:
        return wanted
    requests = {} if infeasible else wanted
    _raise_to(requests, parsed(actual.requests))
    _raise_to(requests, _quantities(status.allocated_resources))
    return requests


def _pod_level_requests(
    spec: pods.PodSpec, status: pods.PodStatus, *, infeasible: bool
) -> Requests:
    """Requests of the pod as a whole, which replace those of its containers."""
    requests = _effective(spec.resources, status, infeasible=infeasible)
    return {
        name: requests.get(name, 0) for name in filter(_may_be_pod_level, _requests(spec.resources))
    }


def _may_be_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _is_resize_infeasible(conditions: Iterable[Condition]) -> bool:
    pending = next((c for c in conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _requests(resources: Raw) -> Requests:
    requirements = _REQUIREMENTS(resources)
    return parsed(requirements.requests) if requirements is not None else {}


def _quantities(raw: Raw) -> Requests:
    return parsed(_QUANTITIES(raw))


def parsed(quantities: Mapping[str, str] | None, *, round_up: bool = True) -> Requests:
    """Quantities by resource name; negative ones count as none."""
    return {
        name: max(0, quantity(text, per_unit=1000 if name == "cpu" else 1, round_up=round_up))
        for name, text in (quantities or {}).items()
    }


def _add(total: Requests, more: Requests) -> None:
    for name, amount in more.items():
        total[name] = min(total.get(name, 0) + amount, LARGEST_AMOUNT)


def _raise_to(total: Requests, least: Requests) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def _amounts(by_name: Requests) -> Amounts:
    return Amounts(
        cpu_millicores=by_name.pop("cpu", 0),
        memory_bytes=by_name.pop("memory", 0),
        ephemeral_storage_bytes=by_name.pop("ephemeral-storage", 0),
        pods=by_name.pop("pods", 0),
        extended=tuple(sorted(by_name.items())),
    )
