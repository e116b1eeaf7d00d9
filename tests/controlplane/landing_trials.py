"""Evictions on the real control plane, each beside the forecast of where it will land."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.model.cluster import ClusterState, Pod
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.kube_scheduler.scores.total import plugin_scores
from desched.planning.placement.landing_forecast import Landing, after, forecast
from desched.policy.schedulers import SchedulerRules
from tests.builders import free_capacity
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.random_clusters import RandomCluster
from tests.controlplane.scheduler_log import SchedulerLog, Scores
from tests.controlplane.soft_taints import SoftTaints
from tests.controlplane.waiting import PATIENCE_SECONDS

COVERED_SHARE = 0.97

RETRY_SECONDS = 15.0
"""More than the scheduler's longest back-off."""


@dataclass(frozen=True)
class Trial:
    """An eviction, what was expected and what happened; `landed` is None if it fits nowhere.

    `steered` are the nodes with desched's soft taint by then.
    """

    pod: Pod
    landing: Landing
    landed: str | None
    steered: frozenset[str]
    expected_scores: Scores
    real_scores: Scores = field(default_factory=dict)

    @property
    def likely(self) -> tuple[str, ...]:
        """The fewest nodes that hold 97 % of the probability."""
        chances = self.landing.chances(COVERED_SHARE, len(self.landing.names))
        return tuple(chance.node for chance in chances)

    @property
    def is_covered(self) -> bool:
        """Whether it landed on a likely node, or nowhere as expected."""
        return self.landed in self.likely if self.landed else not self.likely

    @property
    def tops(self) -> bool:
        """Whether it landed on the most likely node."""
        return self.landed == next(iter(self.likely), None)

    @property
    def feasible(self) -> frozenset[str]:
        """Nodes that the forecast takes for possible."""
        names = self.landing.names
        return frozenset(names[i] for i in self.landing.destinations.nonzero()[0])

    @property
    def scored(self) -> frozenset[str]:
        """Nodes that the scheduler found feasible; empty if there was no choice (or no log)."""
        return frozenset(self.real_scores.get("total", {}))

    def differences(self) -> list[str]:
        """Scores that are not the scheduler's, as sentences."""
        return [
            f"{plugin} gave {node} {score}, expected {self.expected_scores[plugin].get(node)}"
            for plugin, by_node in self.real_scores.items()
            if plugin in self.expected_scores
            for node, score in by_node.items()
            if self.expected_scores[plugin].get(node) != score
        ]

    def __str__(self) -> str:
        expected = ", ".join(
            f"{name} {self.landing.probabilities[self.landing.names.index(name)]:.0%}"
            for name in self.likely
        )
        real = self.real_scores.get("total", {})
        return (
            f"{self.pod.ref} of {self.pod.node} landed on {self.landed} "
            f"(score {real.get(self.landed or '')}), expected {expected or 'nowhere'}; "
            f"{'; '.join(self.differences()[:6]) or f'same scores on {len(real)} nodes'}; "
            f"{', '.join(sorted(self.steered)) or 'no node'} steered; {self.pod.scheduling}"
        )


class _Planned(NamedTuple):
    pod: Pod
    landing: Landing
    scores: Scores
    steered: frozenset[str]


class Trials:
    """Evicts pods of one cluster, one at a time or several at once; `taints` change in between."""

    def __init__(
        self,
        control_plane: ControlPlane,
        cluster: RandomCluster,
        seed: int,
        taints: SoftTaints | None = None,
    ) -> None:
        self._control_plane = control_plane
        self._taints = taints
        self._cluster = cluster
        self._chance = random.Random(f"trials {seed}")  # noqa: S311  reproducible
        self._reader = KubernetesReader(connect(control_plane.admin_kubeconfig, None))

    def run(self, count: int, at_once: int = 1) -> Iterator[Trial]:
        """So many evictions, in groups that are forecast before the first of them is made."""
        for _ in range(count // at_once):
            yield from self._group(at_once)

    def _group(self, size: int) -> list[Trial]:
        state = self._settled()
        room = free_capacity(state)
        view = SchedulerView(state, SchedulerRules())
        steered = frozenset(n.name for n in state.nodes if n.steered_until is not None)
        planned: list[_Planned] = []
        for pod in self._victims(state, size):
            if self._taints is not None:
                steered = self._taints.drawn(state, steered)
                view = view.with_steered(np.array([name in steered for name in view.names]))
            landing = forecast(pod, room, view)
            planned.append(_Planned(pod, landing, self._scores(landing, view), steered))
            view = after(view, landing)
            for chance in landing.chances(COVERED_SHARE, 1):
                room.reserve(chance.node, pod, {}, leaving=pod)
        known = {pod.uid for pod in state.pods}
        log = SchedulerLog(self._control_plane)
        trials = []
        for pod, landing, scores, steered in planned:
            if self._taints is not None:
                self._taints.set_on(steered)
            self._evict(pod)
            patience = PATIENCE_SECONDS if landing.destinations.any() else RETRY_SECONDS
            name, landed = self._replacement(pod, known, patience)
            real = log.scores(name)
            trials.append(Trial(pod, landing, landed, steered, scores, real))
        for each in planned:
            self._end(each.pod)
        log.wait_for_pods_gone([str(each.pod.ref) for each in planned])
        return trials

    def _victims(self, state: ClusterState, size: int) -> Sequence[Pod]:
        """One pod of each of several workloads."""
        pods = [p for p in state.pods if p.namespace in self._cluster.namespaces and p.owner]
        by_owner: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.ref):
            by_owner.setdefault(pod.owner.uid if pod.owner else "", []).append(pod)
        return [
            self._chance.choice(by_owner[uid])
            for uid in self._chance.sample(
                sorted(by_owner, key=lambda uid: by_owner[uid][0].ref), size
            )
        ]

    @staticmethod
    def _scores(landing: Landing, view: SchedulerView) -> Scores:
        """Of the first alternative; comparable only for a group's first eviction."""
        parts = plugin_scores(landing.departure, view, landing.destinations)
        found = {
            plugin: dict(zip(view.names, row.reshape(-1, len(view.names))[0].tolist(), strict=True))
            for plugin, row in parts.items()
        }
        found["total"] = {n: sum(part[n] for part in found.values()) for n in view.names}
        return found

    def _settled(self) -> ClusterState:
        """The state once nothing is terminating or waiting."""

        def state() -> ClusterState | None:
            read = self._reader.read_cluster()
            return None if any(p.deleting or not p.node for p in read.pods) else read

        found = self._control_plane.wait_for("a settled cluster", state)
        assert found is not None
        return found

    def _evict(self, pod: Pod) -> None:
        status, answer = self._control_plane.request(
            "POST",
            f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
            },
        )
        assert status == 201, answer
        if pod.owner is not None and pod.owner.kind == "StatefulSet":
            self._end(pod)  # only then is it replaced

    def _end(self, pod: Pod) -> None:
        """Let the kubelet be done with a pod before its grace period is over."""
        self._control_plane.request(
            "DELETE",
            f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
            {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}},
        )

    def _replacement(
        self, pod: Pod, known: set[str], patience_seconds: float
    ) -> tuple[str, str | None]:
        """The replacement's name and node (None if it fits nowhere); it is known from now on."""

        def decision(*, patient: bool) -> tuple[str, str | None] | None:
            for new in self._control_plane.pods(pod.namespace, f"app={pod.labels['app']}"):
                if new["metadata"]["uid"] not in known:
                    node = new["spec"].get("nodeName")
                    if node or (_is_refused(new) and not patient):
                        known.add(new["metadata"]["uid"] if node else "")
                        return f"{pod.namespace}/{new['metadata']['name']}", node
            return None

        what = f"the replacement of {pod.ref}"
        found = self._control_plane.wait_for(what, lambda: decision(patient=False))
        assert found is not None
        if found[1] is None:  # nothing fits beside the old pod
            self._end(pod)
            with suppress(TimeoutError):
                found = self._control_plane.wait_for(
                    what, lambda: decision(patient=True), patience_seconds
                )
        assert found is not None
        return found


def _is_refused(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
