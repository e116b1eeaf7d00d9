"""Many small clusters in one: sites, whose pods fit on their own nodes only.

A site is built with every pod on the node that it is to begin on, whatever the scheduler would say;
from then on the scheduler decides. What a site needs to be measured, all sites wait for together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.controlplane.installation import ALONE, WINDOW_SECONDS, Installation
from tests.controlplane.manifests import Object, deployment, priority_class, usage

SITE = "site"
TAINT, UNTIL = "desched.io/overloaded", "desched.io/overloaded-until"
VALUED = "valued"
"""A priority class that makes pods a later choice."""


class Site:
    """Nodes, named `SITE-NODE`, and workloads in a namespace of the site's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[tuple[str, ...], Object] = {}
        self.manifests: list[Object] = []
        self.places: dict[str, list[str]] = {}

    def node(
        self,
        *names: str,
        uses: str = "0",
        cpu: str = "4",
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
    ) -> None:
        """Alike nodes that use this much CPU on their own."""
        self.nodes[tuple(f"{self.name}-{name}" for name in names)] = {
            "cpu": cpu,
            "labels": {SITE: self.name, **(labels or {})},
            "annotations": usage(uses),
            "resources": resources,
        }

    def workload(self, name: str, on: Sequence[str], uses: str, **fields: Any) -> None:
        """A Deployment with a replica on each of these nodes; `fields` as of `deployment`."""
        fields["nodeSelector"] = {SITE: self.name, **fields.get("nodeSelector", {})}
        manifest = deployment(name, len(on), uses, self.name, **fields)
        self.manifests.append(manifest)
        self.places[name] = [f"{self.name}-{node}" for node in on]


def movable(name: str) -> Site:
    """A hot node that one of two pods would relieve, and a cool one."""
    site = Site(name)
    site.node("hot", uses="2400m")
    site.node("cool")
    site.workload("web", ("hot", "hot"), "500m", cpu_request="1200m")
    return site


def lone(name: str = "lone", **fields: Any) -> Site:
    """One pod has to go, and without a soft taint it would come back."""
    site = Site(name)
    site.node("hot", uses="2700m")
    site.node("cold1", "cold2")
    site.workload("filler", ("cold1", "cold2"), "200m", cpu_request="3")
    site.workload("web", ("hot", "cold1"), "600m", cpu_request="100m", **fields)
    return site


class Sites(Installation):
    """The sites of one test module, and desched, which looks at one of them at a time."""

    def build(self, *sites: Site) -> None:
        """Make them real; returns when desched knows the load of all."""
        self.install_permissions()
        names: set[str] = set()
        for site in sites:
            for alike, node in site.nodes.items():
                self.plane.add_node(*alike, **node, unschedulable=True)
                names.update(alike)
        namespaces = (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.name}}
            for site in sites
        )
        manifests = (manifest for site in sites for manifest in site.manifests)
        self.plane.apply(*namespaces, priority_class(VALUED, 1_000))
        self.allow_state_in(*(site.name for site in sites))
        with self.plane.paused_scheduler():
            self.plane.apply(*manifests)
            for site in sites:
                self._place(site)
        for name in names:
            self.plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": False}})
        self.plane.wait_for("nodes that take pods", lambda: names.isdisjoint(self._tainted()))
        self.plane.wait_for_scheduler()
        pods = sum(len(on) for site in sites for on in site.places.values())
        self.wait_until_measured(pods)

    def _place(self, site: Site) -> None:
        """Bind every pod, as only a scheduler can while the nodes are cordoned."""
        for name, nodes in site.places.items():
            pods = self._created(site.name, name, len(nodes))
            for pod, node in zip(pods, nodes, strict=True):
                self.bind(site.name, pod["metadata"]["name"], node)

    def _created(self, namespace: str, app: str, count: int) -> list[Object]:
        def pods() -> list[Object]:
            found = self.plane.pods(namespace, f"app={app}")
            return found if len(found) == count else []

        return self.plane.wait_for(f"{count} pods of {namespace}/{app}", pods)

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """What the scheduler does with a pod."""
        status, answer = self.plane.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/pods/{pod}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod},
                "target": {"kind": "Node", "name": node},
            },
        )
        assert status == 201, answer

    def _tainted(self) -> set[str]:
        nodes = self.plane.items("/api/v1/nodes")
        return {node["metadata"]["name"] for node in nodes if node["spec"].get("taints")}

    def steered(self) -> dict[str, datetime]:
        """The nodes with desched's soft taint, and until when."""
        return {
            node["metadata"]["name"]: datetime.fromisoformat(node["metadata"]["annotations"][UNTIL])
            for node in self.plane.items("/api/v1/nodes")
            if any(taint["key"] == TAINT for taint in node["spec"].get("taints", ()))
        }

    def wait_until_measured(self, pods: int) -> None:
        """The whole window is covered for this many pods, and for the nodes that they are on."""
        self.prometheus.wait_until_has(
            f'count(container_memory_working_set_bytes{{container!=""}} offset {WINDOW_SECONDS}s)'
            f" >= {pods}"
        )

    def look(self, site: str, *flags: str, exit_code: int = 0, **load_aware: Any) -> Object:
        """The report of one cycle on a site; it evicts only with `--evict`.

        What it leaves behind, the next look at the site finds.
        """
        load_aware.setdefault("nodeSelector", f"{SITE}={site}")
        load_aware.setdefault("name", f"look-{site}")  # others may look elsewhere meanwhile
        alone = ("--once", ALONE, *(("--state-namespace", site) if site else ()))
        return self.report(*alone, *flags, exit_code=exit_code, **load_aware)

    def evict_by_hand(self, site: str, app: str, node: str) -> str:
        """Evict what desched would not, and tell on which node the replacement runs."""
        before = self.where(site, app)
        pod = next(name for name, on in before.items() if on == node)
        path = f"/api/v1/namespaces/{site}/pods/{pod}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": site},
        }
        status, answer = self.plane.request("POST", path, body)
        assert status == 201, answer
        (landed,) = self.landed(site, app, before)
        return landed

    def where(self, site: str, app: str) -> dict[str, str]:
        """The nodes of an app's pods, by pod."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.plane.pods(site, f"app={app}")
        }

    def landed(self, site: str, app: str, before: Mapping[str, str]) -> list[str]:
        """Where replacements run once as many pods as before are Ready."""
        pods = self.plane.wait_for_ready_pods(site, len(before), f"app={app}")
        return sorted(
            pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"] not in before
        )


def app_of(pod: Mapping[str, str]) -> str:
    """The app whose pod a report speaks of."""
    return pod["name"].rsplit("-", 2)[0]


def evicted(report: Object) -> list[str]:
    """The apps of the evicted pods; every eviction that was planned has succeeded."""
    assert [o["verdict"] for o in report["outcomes"]] == ["evicted"] * len(report["outcomes"])
    assert len(report["outcomes"]) == len(report["plan"]["evictions"])
    return sorted(app_of(outcome["pod"]) for outcome in report["outcomes"])


def refused(report: Object) -> dict[str, set[str]]:
    """The reasons for which pods stay, by app."""
    found: dict[str, set[str]] = {}
    for refusal in report["plan"]["refusals"]:
        found.setdefault(app_of(refusal["pod"]), set()).add(refusal["reason"])
    return found


def verdict(report: Object, node: str) -> Object:
    """What a report says of a node."""
    found: Object = next(v for v in report["plan"]["nodes"] if v["node"] == node)
    return found


def cpu(report: Object, node: str) -> Object:
    """What a report says of a node's CPU."""
    found: Object = next(p for p in verdict(report, node)["pressures"] if p["resource"] == "cpu")
    return found


def short(site: str, nodes: Iterable[str]) -> Counter[str]:
    """How many of these are each of the site's nodes, without the site's name."""
    return Counter(node.removeprefix(f"{site}-") for node in nodes)
