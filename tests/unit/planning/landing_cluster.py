"""Small clusters for forecasts, and the forecast of one of their pods."""

from datetime import UTC, datetime

import msgspec

from desched.model.cluster import ClusterState, Node, Owner, Pod, SchedulingClass
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.landing_forecast import Landing, forecast
from desched.plugins.schedulers.plugin import Schedulers
from desched.policy.schedulers import SchedulerRules
from tests.builders import free_capacity

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
GI = 2**30
SMALL = SchedulingClass(
    Amounts(100, GI // 4, 0, 1), scored_cpu_millicores=100, scored_memory_bytes=GI // 4
)


def node(name, *, cores=4, taints=(), images=None, **labels):
    amounts = Amounts(cores * 1000, cores * 4 * GI, 0, 110)
    return Node(
        name=name,
        uid=name,
        created_at=CREATED,
        labels={
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": labels.pop("arch", "amd64"),
            **{key.replace("zone", "topology.kubernetes.io/zone"): v for key, v in labels.items()},
        },
        capacity=amounts,
        allocatable=amounts,
        taints=tuple(taints),
        images=images or {},
    )


def pod(name, on, *, app="web", scheduling=SMALL, kind="ReplicaSet", **more):
    fields = {"namespace": "shop", "labels": {"app": app}, "owner": Owner(kind, app, f"uid-{app}")}
    return Pod(
        name=name,
        uid=name,
        scheduling=scheduling,
        created_at=CREATED,
        node=on,
        **{**fields, **more},
    )


def having(scheduling=SMALL, **changes):
    return msgspec.structs.replace(scheduling, **changes)


def by_label(key, value):
    return LabelSelector((Requirement(key, Operator.IN, (value,)),))


def cluster(nodes, pods, **more):
    owners = {p.controller: by_label("app", p.owner.name) for p in pods if p.owner}
    return ClusterState(
        tuple(nodes), tuple(pods), **{"controller_selectors": owners, "namespaces": {}, **more}
    )


def forecast_of(loaded: ClusterState, name: str, rules: SchedulerRules | None = None) -> Landing:
    found = next(p for p in loaded.pods if p.name == name)
    view = SchedulerView(loaded, rules or SchedulerRules(), Schedulers().scores)
    return forecast(found, free_capacity(loaded), view)


def chances(landing: Landing) -> dict[str, float]:
    """The nodes that it may land on."""
    pairs = zip(landing.names, landing.probabilities.tolist(), strict=True)
    return {name: round(chance, 3) for name, chance in pairs if chance}
