"""Spread constraints that kube-scheduler's configuration gives to pods without any.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread, common.go
(`buildDefaultConstraints`), and plugins/helper/spread.go (`DefaultSelector`), at v1.36.
"""

from collections.abc import Iterable

import msgspec

from desched.model.cluster import (
    DEFAULT_SCHEDULER,
    ClusterState,
    Pod,
    SchedulingClass,
    Service,
)
from desched.model.groups import grouped
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.policy.schedulers import SchedulerRules

OWNERS_WITH_SELECTOR = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


def with_default_spread(cluster: ClusterState, rules: SchedulerRules) -> ClusterState:
    """Give pods without spread constraints the default ones of their scheduler."""
    if not any(map(rules.default_spread_of, (DEFAULT_SCHEDULER, *rules.others))):
        return cluster
    services = grouped((service.namespace, service) for service in cluster.services)
    # Pods of a workload share their class, also afterwards.
    classes: dict[tuple[int, str, LabelSelector], SchedulingClass] = {}

    def spread(pod: Pod) -> Pod:
        constraints = rules.default_spread_of(pod.scheduler)
        if pod.scheduling.spread or not constraints:
            return pod
        selector = default_selector(pod, services.get(pod.namespace, ()), cluster)
        if not selector.requirements:
            return pod
        key = id(pod.scheduling), pod.scheduler, selector
        if key not in classes:
            own = tuple(msgspec.structs.replace(c, selector=selector) for c in constraints)
            classes[key] = msgspec.structs.replace(pod.scheduling, spread=own)
        return msgspec.structs.replace(pod, scheduling=classes[key])

    return msgspec.structs.replace(cluster, pods=tuple(map(spread, cluster.pods)))


def default_selector(pod: Pod, services: Iterable[Service], cluster: ClusterState) -> LabelSelector:
    """The requirements of the pod's Services, of these, and of its controller, combined."""
    wanted: dict[str, str] = {}
    for service in services:
        if service.selects(pod):
            wanted |= service.selector
    requirements = [Requirement(key, Operator.IN, (value,)) for key, value in wanted.items()]
    if pod.owner is not None and pod.owner.kind in OWNERS_WITH_SELECTOR:
        key = (pod.namespace, pod.owner.uid)
        own = cluster.controller_selectors.get(key, LabelSelector())
        requirements += own.requirements
    return LabelSelector(tuple(requirements))
