"""What goes on in a cluster all day: deploys, scaling, rollouts, drains, lost nodes, load."""

import random
from collections.abc import Callable

from tests.controlplane.manifests import Object
from tests.controlplane.soak_agenda import Agenda, Journal
from tests.controlplane.soak_cluster import (
    MOVABLE,
    NAMESPACE,
    NODE_MIB,
    NODE_MILLICORES,
    App,
    SoakCluster,
    deployment_path,
    requested_millicores,
    use_by_node,
)
from tests.controlplane.usage_exporter import CPU_ANNOTATION, MEMORY_ANNOTATION

DRAIN_ROUND_SECONDS = 5.0
DRAIN_ROUNDS = 8
AWAY_RATIO = 0.04
HOT_RATIO = 0.05
STRATEGIC = "application/strategic-merge-patch+json"


class Churn:
    """Changes the cluster at random; each change that has an end puts it on the agenda.

    `pace` shortens (or lengthens) how long things last. At most `most_hot` nodes are hot at a time,
    by what the cluster shows, and alike on all planes of `heated`.
    """

    def __init__(
        self,
        cluster: SoakCluster,
        agenda: Agenda,
        journal: Journal,
        chance: random.Random,
        pace: float,
    ) -> None:
        self._cluster = cluster
        self._plane = cluster.plane
        self._agenda = agenda
        self._journal = journal
        self._chance = chance
        self._pace = pace
        self._apps_at_first = len(cluster.apps)
        self._away: set[str] = set()
        self._hot: set[str] = set()
        self.most_hot = max(3, round(HOT_RATIO * len(cluster.nodes)))
        self.heated = [cluster.plane]
        self._revision = 0

    def change(self) -> None:
        """One change of workloads or nodes."""
        action = self._chance.choices(
            (self._deploy_or_remove, self._scale, self._roll_out, self._node_goes),
            weights=(4, 5, 2, 2),
        )[0]
        action()

    def heat(self) -> None:
        """One change of load: a node becomes hot, or a workload is busier for a while."""
        self._chance.choices((self._hot_spot, self._surge), weights=(3, 1))[0]()

    # Workloads

    def _app(self) -> App:
        return self._chance.choice(list(self._cluster.apps.values()))

    def _deploy_or_remove(self) -> None:
        more = len(self._cluster.apps) - self._apps_at_first
        if more > 0 and self._chance.random() < more / 5:
            app = self._app()
            self._cluster.remove(app)
            self._journal.note("churn", "removed", app.name)
        else:
            app = self._cluster.deploy(self._chance.choice(MOVABLE))
            self._journal.note("churn", "deployed", f"{app.name} with {app.replicas}")

    def _scale(self) -> None:
        app = self._app()
        replicas = self._chance.randint(2, 8)
        if replicas == app.replicas:
            replicas += 1
        kind = "scaled up" if replicas > app.replicas else "scaled down"
        self._cluster.scale(app, replicas)
        self._journal.note("churn", kind, f"{app.name} to {replicas}")

    def _roll_out(self) -> None:
        app = self._app()
        self._revision += 1
        notes = {"annotations": {"revision": str(self._revision)}}
        body = {"spec": {"template": {"metadata": notes}}}
        self._plane.request("PATCH", deployment_path(app), body)
        self._journal.note("churn", "rolled out", app.name)

    # Nodes

    def _node_goes(self) -> None:
        if len(self._away) >= max(1, round(AWAY_RATIO * len(self._cluster.nodes))):
            self._scale()
            return
        node = self._chance.choice([n for n in self._cluster.nodes if n not in self._away])
        self._away.add(node)
        self._chance.choice((self._drain, self._lose, self._break))(node)

    def _drain(self, node: str) -> None:
        self._journal.note("churn", "drained", node)
        self._patch_node(node, {"spec": {"unschedulable": True}})

        def evict(rounds_left: int) -> None:
            left = [pod for pod in self._on(node) if not _stays_in_a_drain(pod)]
            for pod in left:
                self._evict(pod)
            if left and rounds_left:
                self._agenda.later(DRAIN_ROUND_SECONDS, lambda: evict(rounds_left - 1))
            else:
                self._agenda.later(self._lasting(60), uncordon)

        def uncordon() -> None:
            self._patch_node(node, {"spec": {"unschedulable": False}})
            self._away.discard(node)

        evict(DRAIN_ROUNDS)

    def _evict(self, pod: Object) -> None:
        """Ask as `kubectl drain` does: a budget may say no, and the next round asks again."""
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/eviction"
        metadata = {"name": name, "namespace": pod["metadata"]["namespace"]}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        self._plane.request("POST", path, body)

    def _lose(self, node: str) -> None:
        self._journal.note("churn", "lost", node)
        self._plane.request("DELETE", f"/api/v1/nodes/{node}")

        def give_back() -> None:
            self._cluster.add_nodes(node)
            self._away.discard(node)
            self._hot.discard(node)

        self._agenda.later(self._lasting(90), give_back)

    def _break(self, node: str) -> None:
        """Its kubelet reports that it is not ready, and later that all is well again."""
        self._journal.note("churn", "not ready", node)
        self._report_not_ready(node)
        self._agenda.later(self._lasting(60), lambda: self._mend(node))

    def break_half(self) -> Callable[[], None]:
        """The same for half of the nodes at once; returns what mends them."""
        here = [node for node in self._cluster.nodes if node not in self._away]
        broken = self._chance.sample(here, len(self._cluster.nodes) // 2)
        self._journal.note("churn", "half not ready", f"{len(broken)} nodes")
        self._away.update(broken)
        for node in broken:
            self._report_not_ready(node)

        def mend() -> None:
            for node in broken:
                self._mend(node)
            self._journal.note("churn", "half ready again")

        return mend

    def _report_not_ready(self, node: str) -> None:
        self._patch_node(node, {"metadata": {"annotations": {"desched.test/broken": "true"}}})
        ready = {"type": "Ready", "status": "False", "reason": "Broken", "message": ""}
        self._plane.request(
            "PATCH",
            f"/api/v1/nodes/{node}/status",
            {"status": {"conditions": [ready]}},
            content_type=STRATEGIC,
        )

    def _mend(self, node: str) -> None:
        self._patch_node(node, {"metadata": {"annotations": {"desched.test/broken": None}}})
        self._away.discard(node)

    def report_pods(self) -> None:
        """Say of pods what a kubelet that is back says, which KWOK does only once."""
        for pod in self._plane.seen_pods:
            status = pod["status"]
            if status.get("phase") == "Running" and pod["spec"]["nodeName"] not in self._away:
                conditions = {each["type"]: each["status"] for each in status["conditions"]}
                if conditions.get("Ready") == "False":
                    self._report_ready(pod)

    def _report_ready(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
        body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
        self._plane.request("PATCH", path, body, content_type=STRATEGIC)

    def _patch_node(self, node: str, body: Object) -> None:
        for plane in self.heated:
            plane.request("PATCH", f"/api/v1/nodes/{node}", body)

    def _on(self, node: str) -> list[Object]:
        return [pod for pod in self._plane.seen_pods if pod["spec"].get("nodeName") == node]

    # Load

    def _hot_spot(self) -> None:
        """A node begins to use more on its own, often one that the scheduler favours."""
        pods = self._plane.seen_pods
        load = use_by_node(self._plane.seen_nodes, pods)
        cool = [n for n in load if n not in self._away | self._hot]
        if len(self._hot) >= self.most_hot or not cool:
            return
        if self._chance.random() < 0.4:
            requested = requested_millicores(pods)
            cool = sorted(cool, key=lambda node: requested[node])[: 1 + len(cool) // 6]
        node = self._chance.choice(cool)
        self._hot.add(node)
        if self._chance.random() < 0.75:
            more_ratio = self._chance.uniform(0.84, 0.93) - load[node].cpu_ratio
            use = {CPU_ANNOTATION: f"{max(0, round(more_ratio * NODE_MILLICORES))}m"}
        else:
            more_ratio = self._chance.uniform(0.89, 0.95) - load[node].memory_ratio
            use = {MEMORY_ANNOTATION: f"{max(0, round(more_ratio * NODE_MIB))}Mi"}
        self._journal.note("load", "hot spot", f"{node} {', '.join(use.values())}")
        self._patch_node(node, {"metadata": {"annotations": use}})

        def cool_down() -> None:
            self._patch_node(node, {"metadata": {"annotations": dict.fromkeys(use)}})
            self._hot.discard(node)

        self._agenda.later(self._lasting(240), cool_down)

    def _surge(self) -> None:
        app = self._app()
        busy = f"{round(app.cpu_millicores * self._chance.uniform(1.4, 2.2))}m"
        self._journal.note("load", "surge", f"{app.name} {busy}")
        self._use(app, busy)
        self._agenda.later(self._lasting(180), lambda: self._use(app, f"{app.cpu_millicores}m"))

    def _use(self, app: App, cpu: str) -> None:
        body = {"metadata": {"annotations": {CPU_ANNOTATION: cpu}}}
        for plane in self.heated:
            for pod in plane.seen_pods:
                if pod["metadata"].get("labels", {}).get("app") == app.name:
                    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
                    plane.request("PATCH", path, body)

    def _lasting(self, seconds: float) -> float:
        return seconds * self._pace * self._chance.uniform(0.6, 1.4)


def _stays_in_a_drain(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences", [])
    return not owners or owners[0]["kind"] == "DaemonSet"
