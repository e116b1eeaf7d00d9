"""Where all the moves of a plan may land together, by forecasts of one cluster after the other."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import msgspec
import numpy as np

from desched.model.cluster import ClusterState
from desched.model.plan import Plan, PlannedEviction
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.landing_forecast import forecast
from desched.policy.schedulers import SchedulerRules
from tests.builders import free_capacity

MOST_RISK = 0.15
TARGET = 0.8
WORKLOADS = ("web", "db", "api", "job")


def outcomes(
    loaded: ClusterState,
    evictions: Sequence[PlannedEviction],
    taints: Sequence[Collection[str]] = (),
    probability: float = 1.0,
) -> Iterator[tuple[str, ...]]:
    """The nodes that all replacements land on, for each outcome likelier than the limit.

    `taints` are the nodes with desched's soft taint as each of them lands, none by default.
    """
    if not evictions:
        yield ()
        return
    leaving = next(p for p in loaded.pods if p.uid == evictions[0].pod.uid)
    view = SchedulerView(loaded, SchedulerRules())
    if taints:
        view = view.with_steered(np.array([name in taints[0] for name in view.names]))
    landing = forecast(leaving, free_capacity(loaded), view)
    for name, share in zip(landing.names, landing.probabilities.tolist(), strict=True):
        if probability * share > MOST_RISK + 1e-9:
            name_after, uid_after = f"{leaving.name}-2", f"{leaving.uid}-2"
            landed = msgspec.structs.replace(leaving, name=name_after, uid=uid_after, node=name)
            gone = msgspec.structs.replace(leaving, deleting=True)
            pods = (*(gone if p is leaving else p for p in loaded.pods), landed)
            after = msgspec.structs.replace(loaded, pods=pods)
            for others in outcomes(after, evictions[1:], taints[1:], probability * share):
                yield (name, *others)


def overloaded_by(seen: Snapshot, plan: Plan, where: Sequence[str]) -> list[str]:
    """Nodes that were not above their target before, and are if the replacements land there."""
    change: defaultdict[str, float] = defaultdict(float)
    for eviction, landed in zip(plan.evictions, where, strict=True):
        change[landed] += eviction.cpu_millicores
        change[eviction.node] -= eviction.cpu_millicores
    found = []
    for one in seen.cluster.nodes:
        before = seen.load.nodes[one.name][Resource.CPU].levels[0].ratio  # type: ignore[union-attr]
        after = before + change[one.name] / one.capacity.cpu_millicores
        if before <= TARGET < after - 1e-9:
            found.append(one.name)
    return found
