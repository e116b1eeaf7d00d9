"""Soft taints on random clusters: those of others, those of desched, and pods that do not mind."""

import copy
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.model.cluster import STEERING_TAINT, ClusterState
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object
from tests.controlplane.random_clusters import RandomCluster
from tests.controlplane.scheduler_log import SchedulerLog

SAME_BY_OTHERS = {"key": STEERING_TAINT.key, "effect": str(STEERING_TAINT.effect)}
OF_OTHERS = {"key": "maintenance", "value": "soon", "effect": "PreferNoSchedule"}
TOLERATIONS = (
    {"key": STEERING_TAINT.key, "operator": "Exists"},
    {"operator": "Exists", "effect": "PreferNoSchedule"},
)
TOLERANT_SHARE = 0.2
"""Of the workloads."""
CHANGED_SHARE = 0.5
"""Of the evictions: other nodes have the taint by then than before."""
MOST_NEW = 2


def with_soft_taints(cluster: RandomCluster, seed: int) -> RandomCluster:
    """The cluster with soft taints of others, some nodes with two, and with tolerant workloads."""
    chance = random.Random(f"soft taints {seed}")  # noqa: S311  reproducible
    nodes = {
        name: {**spec, "taints": [*spec["taints"], *_drawn_of_others(chance)]}
        for name, spec in cluster.nodes.items()
    }
    manifests = tuple(_perhaps_tolerant(manifest, chance) for manifest in cluster.manifests)
    return replace(cluster, nodes=nodes, manifests=manifests)


def _drawn_of_others(chance: random.Random) -> list[Object]:
    return [taint for taint in (OF_OTHERS, SAME_BY_OTHERS) if chance.random() < 0.1]


def _perhaps_tolerant(manifest: Object, chance: random.Random) -> Object:
    if "template" not in manifest["spec"] or chance.random() >= TOLERANT_SHARE:
        return manifest
    tolerant = copy.deepcopy(manifest)
    spec = tolerant["spec"]["template"]["spec"]
    spec["tolerations"] = [*spec.get("tolerations", ()), chance.choice(TOLERATIONS)]
    return tolerant


class SoftTaints:
    """Those of desched, on nodes that chance draws anew before half of the evictions."""

    def __init__(self, control_plane: ControlPlane, seed: int) -> None:
        self._control_plane = control_plane
        self._chance = random.Random(f"steered {seed}")  # noqa: S311  reproducible
        self._steerer = KubernetesSteerer(connect(control_plane.admin_kubeconfig, None))
        self._present: frozenset[str] = frozenset()

    def drawn(self, state: ClusterState, before: frozenset[str]) -> frozenset[str]:
        """Which nodes have it next: about half of those that have it, and one or two others."""
        if self._chance.random() >= CHANGED_SHARE:
            return before
        possible = sorted(n.name for n in state.nodes if not n.avoided or n.name in before)
        new = self._chance.sample(possible, self._chance.randint(1, MOST_NEW))
        return frozenset(n for n in sorted(before) if self._chance.random() < 0.5) | set(new)

    def set_on(self, nodes: frozenset[str]) -> None:
        """These nodes have it and no others; returns when the scheduler knows."""
        log = SchedulerLog(self._control_plane)
        until = datetime.now(UTC) + timedelta(hours=1)
        changed = nodes ^ self._present
        for node in sorted(changed):
            steerer = self._steerer
            answer = steerer.taint(node, until) if node in nodes else steerer.untaint(node)
            assert answer.done, answer
        self._present = nodes
        log.wait_for_changed_nodes(changed)
