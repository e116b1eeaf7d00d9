"""The node that a series belongs to, from the labels of the series.

In this order, if it matches an existing node: the `node` label, `instance` as a node name, the node
of the exporter's pod, the host name that the exporter reports, the host part of `instance` as an
address. So the common installations work without relabelling.

A `node` label that matches no node ends the search, unless the exporter's pod is known: the address
in `instance` may be that of another cluster's node. A series whose exporter is a pod of one node
belongs to no other node, whatever its labels.

A job that scrapes annotated Services of all namespaces scrapes those of tenants as well. Unless the
policy names whose series count, one of such a job must come from a port of the node itself, which a
pod of the namespace in its labels has.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

from desched.adapters.prometheus.client import PodLabels
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.groups import grouped

HOSTNAME_LABEL = "kubernetes.io/hostname"
SERVICES_JOB = "kubernetes-service-endpoints"
"""The job of the prometheus chart, and of most configurations by hand, for annotated Services."""

_HOSTNAME_LABELS = ("nodename", "hostname", "Hostname")

Labels = Mapping[str, str]


class Way(StrEnum):
    """What of a series led to its node."""

    NODE_LABEL = "the label node"
    INSTANCE = "instance, a node's name"
    EXPORTER = "the exporter's pod"
    HOST_NAME = "the exporter's host name"
    ADDRESS = "the address in instance"


class Match(NamedTuple):
    """The node of a series, and what led to it."""

    node: str
    way: Way


class NodeIndex:
    """Resolves series; a name or address that two nodes share resolves to neither.

    `named` is whether the policy names the exporters of nodes whose series count.
    """

    def __init__(self, cluster: ClusterState, *, named: bool = False) -> None:
        self._names = frozenset(node.name for node in cluster.nodes)
        self._aliases = _unique(
            (alias, node.name) for node in cluster.nodes for alias in _aliases_of(node)
        )
        self._pods = {(pod.namespace, pod.name): pod for pod in cluster.pods}
        self._named_exporters = named
        self._host_ports = grouped(
            (pod.node, (port.port, pod.namespace))
            for pod in cluster.pods
            if not pod.finished
            for port in pod.scheduling.host_ports
        )
        self._reported: Mapping[str, str] = {}
        self._hinted: dict[tuple[str, str], str | None] = {}

    def learn_names(self, reports: Iterable[Labels]) -> None:
        """Record the host names that exporters report, by their `instance`."""
        self._hinted.clear()
        self._reported = _unique(
            (labels["instance"], labels["nodename"])
            for labels in reports
            if labels.get("instance") and labels.get("nodename")
        )

    def resolve(self, labels: Labels) -> str | None:
        """The name of the node that a series belongs to, None if it is unknown."""
        matched = self.match(labels)
        return matched.node if matched else None

    def match(self, labels: Labels) -> Match | None:
        """The node that a series belongs to and what led to it, None if it is unknown."""
        matched = self._by_label(labels)
        if not matched and not labels.get("node"):
            matched = self._by_hostname(labels) or self._by_address(labels)
        if matched and self._exporter_node(labels) in {None, matched.node}:
            return matched if self._may_report(labels, matched.node) else None
        return None

    def _may_report(self, labels: Labels, node: str) -> bool:
        """Whether the exporter of a series may be that of the node, by the job that scrapes it."""
        if self._named_exporters or labels.get("job") != SERVICES_JOB:
            return True
        host, port = _host_and_port(labels.get("instance", ""))
        namespace = labels.get("namespace", "")
        return self._named(host) == node and any(
            port in {None, number} and namespace in {"", of}
            for number, of in self._host_ports.get(node, ())
        )

    def why_unmatched(self, labels: Labels) -> str:
        """Why a series belongs to no node, with the labels that decide it; without a period."""
        runs_on = self._exporter_node(labels)
        if runs_on is not None:
            return f"its exporter's pod {_pod(labels)} runs on {runs_on}, its labels name another"
        if self.claimed_as_service(labels):
            return (
                f'job="{SERVICES_JOB}" scrapes Services of all namespaces, and no pod of the '
                f'namespace "{labels.get("namespace", "")}" has the port in '
                f'instance="{labels.get("instance", "")}" on its node; name your exporters in '
                "metrics.sources"
            )
        if name := labels.get("node"):
            return f'its label node="{name}" names no node of this cluster'
        if not labels.get("instance"):
            return "it has neither a label node nor instance"
        pod = f", and its exporter's pod {_pod(labels)} is not known" if labels.get("pod") else ""
        return f'instance="{labels["instance"]}" is no name or address of a node{pod}'

    def claimed_as_service(self, labels: Labels) -> str | None:
        """The node that a series would belong to if the policy named its Service."""
        if labels.get("job") != SERVICES_JOB or self._named_exporters:
            return None
        return self.resolve({name: value for name, value in labels.items() if name != "job"})

    def would_need_names(self, labels: Labels) -> bool:
        """Whether the host names that exporters report could help to resolve the series."""
        return not (self._by_label(labels) or labels.get("node") or self._by_hostname(labels))

    def has_pod(self, labels: PodLabels) -> bool:
        """Whether there is a pod of the name in these labels."""
        return (labels.namespace, labels.pod) in self._pods

    def pod(self, namespace: str, name: str) -> Pod:
        """The pod of this name, which exists."""
        return self._pods[namespace, name]

    def hinted(self, hints: tuple[str, str]) -> str | None:
        """The node that a pod's series belongs to by its labels `node` and `instance`."""
        if hints not in self._hinted:
            self._hinted[hints] = self.resolve(dict(zip(("node", "instance"), hints, strict=True)))
        return self._hinted[hints]

    def is_where_named(self, labels: PodLabels) -> bool:
        """Whether the series of a pod, with its labels, names the node that the pod is on."""
        node = self.hinted((labels.node, labels.instance))
        if node is None:
            return False
        pod = self._pods.get((labels.namespace, labels.pod))
        return pod is not None and pod.node == node

    def node_of(self, pod: tuple[str, str]) -> str | None:
        """The node of the pod of this namespace and name, None if there is no such pod."""
        pod_of = self._pods.get(pod)
        return None if pod_of is None else pod_of.node

    def past_node(self, labels: PodLabels) -> str | None:
        """The node that a pod's series names, None if the pod is elsewhere now."""
        node = self.hinted((labels.node, labels.instance))
        pod = self._pods.get((labels.namespace, labels.pod))
        return node if pod is None or pod.node == node else None

    def exporter_is_gone(self, labels: Labels) -> bool:
        """Whether a series has the labels of its exporter's pod, and that pod is gone."""
        namespace, pod = labels.get("namespace"), labels.get("pod")
        return bool(namespace and pod) and (namespace, pod) not in self._pods

    def _by_label(self, labels: Labels) -> Match | None:
        if (name := labels.get("node", "")) in self._names:
            return Match(name, Way.NODE_LABEL)
        if not name and (instance := labels.get("instance", "")) in self._names:
            return Match(instance, Way.INSTANCE)
        runs_on = self._exporter_node(labels)
        return Match(runs_on, Way.EXPORTER) if runs_on else None

    def _exporter_node(self, labels: Labels) -> str | None:
        pod = self._pods.get((labels.get("namespace", ""), labels.get("pod", "")))
        return pod.node if pod is not None and pod.node in self._names else None

    def _by_hostname(self, labels: Labels) -> Match | None:
        reported = self._reported.get(labels.get("instance", ""), "")
        for name in (*(labels.get(label, "") for label in _HOSTNAME_LABELS), reported):
            if node := self._named(name):
                return Match(node, Way.HOST_NAME)
        return None

    def _by_address(self, labels: Labels) -> Match | None:
        node = self._named(_host_and_port(labels.get("instance", ""))[0])
        return Match(node, Way.ADDRESS) if node else None

    def _named(self, name: str) -> str | None:
        return name if name in self._names else self._aliases.get(name)


def _pod(labels: Labels) -> str:
    return f"{labels.get('namespace', '')}/{labels.get('pod', '')}"


def _aliases_of(node: Node) -> frozenset[str]:
    return frozenset((*node.addresses, node.labels.get(HOSTNAME_LABEL, ""))) - {"", node.name}


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pairs as a mapping, without keys that have several values."""
    unique: dict[str, str] = {}
    ambiguous: set[str] = set()
    for key, value in pairs:
        if unique.setdefault(key, value) != value:
            ambiguous.add(key)
    return {key: value for key, value in unique.items() if key not in ambiguous}


def _host_and_port(instance: str) -> tuple[str, int | None]:
    """The two parts of `host:port`, also of `[v6]:port` and without a port."""
    try:
        parts = urlsplit(f"//{instance}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    return host, port
