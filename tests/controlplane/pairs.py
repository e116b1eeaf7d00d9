"""Pairs of a hot and a cold node: each of them needs one move, and a soft taint for it."""

from collections.abc import Iterator, Mapping

from tests.controlplane.manifests import Object, deployment, usage
from tests.controlplane.sites import SITE, Sites

PAIRS = 12
"""More than evictions before the last kill, so that desched always has something to do."""

NAMESPACE = "apps"
APPS: Mapping[str, tuple[str, str, str]] = {
    "web": ("hot", "450m", "100m"),
    "api": ("hot", "450m", "100m"),
    "filler": ("cold", "200m", "3"),
}
"""Of each pair: the node, and the CPU that a pod uses and requests."""


class Pairs(Sites):
    """A site for each pair, all of them in one namespace."""

    def build_pairs(self) -> None:
        """Make them real; returns when desched knows the load of all."""
        self.install_permissions("overlays/evict")
        numbers = range(PAIRS)
        for node, uses in (("hot", "2500m"), ("cold", "0")):
            names = [f"{node}{number}" for number in numbers]
            self.plane.add_node(*names, annotations=usage(uses), unschedulable=True)
        self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        with self.plane.paused_scheduler():
            self.plane.apply(*(each for number in numbers for each in _workloads(number)))
            for number in numbers:
                self._place_pair(number)
        for number in numbers:
            body = {"metadata": {"labels": {SITE: str(number)}}, "spec": {"unschedulable": False}}
            for node in ("hot", "cold"):
                self.plane.request("PATCH", f"/api/v1/nodes/{node}{number}", body)
        self.plane.wait_for("nodes that take pods", lambda: not self._tainted())
        self.plane.wait_for_scheduler()
        self.wait_until_measured(PAIRS * len(APPS))

    def _place_pair(self, number: int) -> None:
        for app, (node, _, _) in APPS.items():
            (pod,) = self._created(NAMESPACE, f"{app}{number}", 1)
            self.bind(NAMESPACE, pod["metadata"]["name"], f"{node}{number}")


def _workloads(number: int) -> Iterator[Object]:
    fields: Object = {"nodeSelector": {SITE: str(number)}, "terminationGracePeriodSeconds": 0}
    for app, (_, uses, cpu_request) in APPS.items():
        yield deployment(f"{app}{number}", 1, uses, NAMESPACE, cpu_request=cpu_request, **fields)
