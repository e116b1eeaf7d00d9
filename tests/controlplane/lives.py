"""Desched in its lives with the shipped rights, of which any can be taken away meanwhile."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.api_objects.access import Access
from tests.controlplane.files import replace
from tests.controlplane.installation import ALONE, QUICK_LEASE
from tests.controlplane.manifests import METRICS, Object
from tests.controlplane.replicas import Replica
from tests.controlplane.sites import SITE, Sites
from tests.controlplane.test_deploy import NAMES, NAMESPACE, is_allowed
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.unit.test_deploy import BASE, CUSTOM_METRICS, ROLES

RBAC = "/apis/rbac.authorization.k8s.io/v1"
BY_METRICS_SERVER = {
    "metrics": {"type": "metrics-server"},
    "windows": {"cpu": ["5m"], "memory": ["5m"]},
}
STEERING = {"steering": "WhenNeeded", "steeringMaxNodes": "50%"}
STATE = "state"
"""The namespace of Lease and state from which rights are taken away."""
LOGBOOK = "desched-logbook"
"""The Role, and the ConfigMap that it is about."""


class Right(NamedTuple):
    """One verb on one resource that a Role grants."""

    kind: str
    role: str
    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.kind} {self.role}: {self.verb} {self.resource}"


SHIPPED: Mapping[Right, Access] = {
    Right(kind, role, access.verb, access.group, access.resource): access
    for (folder, kind, role), accesses in ROLES.items()
    if folder != CUSTOM_METRICS  # test_metrics_server.py tries it
    for access in accesses
}
OF_BASE = [right for right in SHIPPED if (BASE, right.kind, right.role) in ROLES]


class Lives(Sites):
    """Desched as people have it: first it plans with the rights of the base, then it acts.

    `requests` are all that its account asked for in these lives.
    """

    requests: tuple[Object, ...]

    def install_permissions(self, folder: str = "base") -> None:
        """Those of the base, unless more is asked for."""
        super().install_permissions(folder)

    def allow_state_in(self, *namespaces: str) -> None:
        """Not in those of the sites, where the rights would hide that others are missing."""
        for namespace in {NAMESPACE, STATE}.intersection(namespaces):
            super().allow_state_in(namespace)

    def wait_until_measured(self, pods: int) -> None:
        """It plans meanwhile, people pause and resume it, and it acts once the load is known."""
        self.plan()
        self.install_permissions("overlays/evict")
        self.plane.create_namespace(STATE)
        self.allow_state_in(STATE)
        self.create_logbook(STATE)
        for namespace in (NAMESPACE, STATE):
            self.wait_for_rights(SHIPPED, namespace)
        acting = self.service("acting", "--evict", *QUICK_LEASE, **STEERING)
        self.command("pause", "--because", "a look")
        assert "a look" in self.command("status").stdout
        self.command("resume")
        super().wait_until_measured(pods)
        self.act(acting)
        self.requests = tuple(self.plane.audit_events(NAMESPACE, self.account["name"]))

    def plan(self) -> None:
        """A dry run, and an edit of its policy that is refused."""
        self.wait_for_rights(OF_BASE)
        self.create_logbook(NAMESPACE)
        planning = self.service("plain", "--dry-run", ALONE)
        planning.wait_for_cycles(1)
        replace(self.directory / "plain.yaml", "none\n")
        planning.wait_until("an Event on its own pod", lambda: self.told(NAMESPACE))
        planning.stop(grace=PATIENCE_SECONDS)
        for kind in METRICS:
            self.plane.serve(kind)
        self.run("--once", ALONE, **BY_METRICS_SERVER)  # which has no samples

    def create_logbook(self, namespace: str) -> None:
        """An empty one, as `deploy/` has it."""
        metadata = {"name": LOGBOOK, "namespace": namespace}
        self.plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def act(self, acting: Replica) -> None:
        """Evictions that are followed, with taints that come and go."""
        acting.wait_until("an eviction", lambda: self.told("acting", "Descheduled"))
        acting.wait_until("its end", lambda: self.told("acting", "Moved", "MoveFailed"))
        acting.wait_until("no taint is left", lambda: not self.steered())
        acting.stop(grace=PATIENCE_SECONDS)
        steerer = KubernetesSteerer(connect(self.plane.admin_kubeconfig, None))
        assert steerer.taint("acting-hot", datetime.now(UTC) + timedelta(hours=1)).done
        assert "acting-hot" in self.command("steering", "clear").stdout
        assert not self.steered()

    def service(self, site: str, *flags: str, **load_aware: Any) -> Replica:
        """Runs on one site until it is stopped."""
        command = self.arguments(
            *("--interval", "1s", "--log-format", "json", "--listen-address", "127.0.0.1:0"),
            *("--logbook", *flags),
            policy=self.policy(site, nodeSelector=f"{SITE}={site}", **load_aware),
        )
        return Replica(f"{site}-0", command, self.directory)

    def told(self, namespace: str, *reasons: str) -> list[Object]:
        """The Events of desched in a namespace, of any reason if none is named."""
        events = self.plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [
            event
            for event in events
            if event.get("reportingController") == "desched"
            and (not reasons or event["reason"] in reasons)
        ]

    def wait_for_rights(self, rights: Iterable[Right], namespace: str = NAMESPACE) -> None:
        """Until RBAC knows of these."""
        for right in rights:
            self.plane.wait_for(str(right), partial(self.has, right, namespace))

    def has(self, right: Right, namespace: str) -> bool:
        """Whether the account has the right, in this namespace if it is that of a Role."""
        where = {}
        if right.kind == "Role":
            where["namespace"] = namespace
            if right.role == LOGBOOK:
                where["name"] = LOGBOOK
            elif right.verb != "create" and right.resource in NAMES:
                where["name"] = NAMES[right.resource]
        return is_allowed(self.plane, right.verb, right.group, right.resource, **where)

    def lacks(self, right: Right, namespace: str) -> bool:
        """Whether it has not."""
        return not self.has(right, namespace)

    @contextmanager
    def without(self, *rights: Right) -> Iterator[None]:
        """Meanwhile the account lacks these; of a Role, in the namespace of the state."""
        paths = {right: _path(right) for right in rights}
        before = {path: self.plane.get(path)["rules"] for path in paths.values()}
        for right, path in paths.items():
            left = list(_without(self.plane.get(path)["rules"], right))
            assert self.plane.request("PATCH", path, {"rules": left})[0] == 200
        for right in rights:
            self.plane.wait_for(f"no {right}", partial(self.lacks, right, STATE))
        try:
            yield
        finally:
            for path, rules in before.items():
                self.plane.request("PATCH", path, {"rules": rules})
            self.wait_for_rights(rights, STATE)


def _path(right: Right) -> str:
    if right.kind == "ClusterRole":
        return f"{RBAC}/clusterroles/{right.role}"
    return f"{RBAC}/namespaces/{STATE}/roles/{right.role}"


def _without(rules: Iterable[Object], right: Right) -> Iterator[Object]:
    """The rules, one for each verb and resource, but for one of them."""
    for rule in rules:
        for verb, group, resource in product(rule["verbs"], rule["apiGroups"], rule["resources"]):
            if (verb, group, resource) != (right.verb, right.group, right.resource):
                only = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
                yield {**rule, **only}
