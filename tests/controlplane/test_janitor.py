"""Expired taints go, whatever happens to cycles, and a clean stop leaves none.

A taint that another process left stands when the service starts, and expires soon after.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.taints import KubernetesSteerer
from tests.controlplane.fault_proxy import FaultProxy
from tests.controlplane.faults import status
from tests.controlplane.forks import mount_token
from tests.controlplane.installation import ALONE, COMMAND, QUICK_LEASE
from tests.controlplane.process import free_ports
from tests.controlplane.replicas import Replica
from tests.controlplane.sites import SITE, Sites, lone
from tests.controlplane.waiting import PATIENCE_SECONDS

HERE = "lone"
SOON = timedelta(seconds=4)
"""Longer than a service needs to start and to see the taint."""


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    empty_sites.install_permissions("overlays/evict")
    empty_sites.build(lone())
    empty_sites.plane.add_node("left")
    return empty_sites


@pytest.fixture
def left(sites: Sites) -> None:
    """The taint of a process that is gone, which expires soon."""
    steerer = KubernetesSteerer(connect(sites.plane.admin_kubeconfig, None))
    assert steerer.taint("left", datetime.now(UTC) + SOON).done
    assert sites.steered().keys() == {"left"}


@contextmanager
def service(
    sites: Sites, *flags: str, kubeconfig: Path | None = None, **load_aware: Any
) -> Iterator[Replica]:
    """A service that evicts on a site without any node, unless another site is chosen."""
    load_aware.setdefault("nodeSelector", f"{SITE}=none")
    command = sites.arguments(
        *("--evict", "--log-format", "json", "--listen-address", "127.0.0.1:0"),
        *("--state-namespace", HERE, *flags),
        policy=sites.policy("janitor", **load_aware),
        kubeconfig=kubeconfig,
    )
    replica = Replica("janitor", command, sites.directory)
    replica.log.write_text("")
    try:
        yield replica
    finally:
        replica.stop(grace=PATIENCE_SECONDS)


def wait_until_gone(sites: Sites) -> None:
    """The taint has its time, and no more."""
    sites.plane.wait_for("no taint is left", lambda: not sites.steered())


QUICK = ("--interval", "1s", ALONE)


@pytest.mark.usefixtures("left")
def test_taints_go_while_prometheus_is_down(sites: Sites) -> None:
    (port,) = free_ports(1)
    metrics = {"type": "prometheus", "address": f"http://127.0.0.1:{port}"}
    with service(sites, *QUICK, metrics=metrics) as replica:
        wait_until_gone(sites)
        assert replica.cycles == []


@pytest.mark.usefixtures("left")
def test_taints_go_while_the_last_edit_of_the_policy_is_invalid(sites: Sites) -> None:
    with service(sites, *QUICK) as replica:
        replica.wait_for_cycles(1)
        (sites.directory / "janitor.yaml").write_text("none\n")
        replica.wait_until("a refusal", lambda: replica.events("policy.refused"))
        wait_until_gone(sites)


@pytest.mark.parametrize("what", ["invalid", "of a class that does not exist"])
@pytest.mark.usefixtures("left")
def test_taints_go_although_a_policy_ends_each_process_at_once(sites: Sites, what: str) -> None:
    """As the kubelet restarts such a container again and again."""
    policy = sites.policy("broken", nodeSelector=f"{SITE}=none")
    manifest = yaml.safe_load(policy.read_text())
    document = yaml.safe_load(manifest["data"]["policy.yaml"])
    evictor = next(
        plugin
        for plugin in document["profiles"][0]["pluginConfig"]
        if plugin["name"] == "DefaultEvictor"
    )
    threshold = {"name": "no-such-class"} if what != "invalid" else {"value": "high"}
    evictor["args"]["priorityThreshold"] = threshold
    manifest["data"]["policy.yaml"] = yaml.safe_dump(document)
    policy.write_text(yaml.safe_dump(manifest))
    flags = ("--evict", "--listen-address", "127.0.0.1:0", "--state-namespace", HERE, *QUICK)

    def restarted() -> bool:
        done = sites.run(*flags, policy=policy)
        assert done.returncode == 2, done.stderr
        return not sites.steered()

    sites.plane.wait_for("no taint is left", restarted)


@pytest.mark.parametrize("path", ["/api/v1/pods", f"/api/v1/namespaces/{HERE}/configmaps"])
@pytest.mark.usefixtures("left")
def test_taints_go_while_pods_or_the_state_cannot_be_read(sites: Sites, path: str) -> None:
    plane = sites.plane
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultProxy.before(plane))
        broken = stack.enter_context(proxy.faulty(status(500), "GET", path))
        kubeconfig = sites.kubeconfig_at(proxy.url, "proxied")
        replica = stack.enter_context(service(sites, *QUICK, kubeconfig=kubeconfig))
        wait_until_gone(sites)
        replica.wait_until("a cycle that fails", lambda: replica.events("cycle.skipped"))
        assert broken.struck
        assert replica.cycles == []


@pytest.mark.usefixtures("left")
def test_taints_go_while_a_schedule_has_no_run(sites: Sites) -> None:
    with service(sites, "--cron", "0 0 1 1 *", ALONE) as replica:
        wait_until_gone(sites)
        assert len(replica.cycles) <= 1


@pytest.mark.usefixtures("left")
def test_taints_go_while_another_replica_holds_the_lease(sites: Sites) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{HERE}/leases"
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    lease = {"metadata": {"name": "desched"}, "spec": spec}
    assert sites.plane.request("POST", leases, lease)[0] == 201
    try:
        with service(sites, "--interval", "1s", *QUICK_LEASE) as replica:
            wait_until_gone(sites)
            assert not replica.leads
            assert replica.cycles == []
    finally:
        sites.plane.request("DELETE", f"{leases}/desched")


@pytest.mark.usefixtures("left")
def test_taints_go_although_the_next_process_is_a_dry_run_in_the_cluster(sites: Sites) -> None:
    server = urlsplit(sites.plane.url)
    (sites.directory / "namespace").write_text(HERE)
    token = sites.plane.token_for(sites.account["namespace"], sites.account["name"])
    (sites.directory / "token").write_text(token)
    policy = sites.policy("dry", nodeSelector=f"{SITE}=none")
    command = [
        *(*COMMAND, "--dry-run", "--policy", str(policy), "--state-namespace", HERE, *QUICK),
        *("--listen-address", "127.0.0.1:0"),
    ]
    dry_run = Replica(
        "dry-run",
        command,
        sites.directory,
        partial(mount_token, sites.directory, sites.plane.ca_file),
        KUBERNETES_SERVICE_HOST=str(server.hostname),
        KUBERNETES_SERVICE_PORT=str(server.port),
    )
    try:
        dry_run.wait_until("no taint is left", lambda: not sites.steered())
    finally:
        dry_run.stop(grace=PATIENCE_SECONDS)
    assert '"mode": "dry_run"' in dry_run.log.read_text()


@pytest.mark.usefixtures("left")
def test_a_dry_run_outside_leaves_them(sites: Sites) -> None:
    sites.plane.wait_for("it has expired", lambda: datetime.now(UTC) > sites.steered()["left"])
    sites.look(HERE, "--dry-run")
    assert sites.steered().keys() == {"left"}
    sites.command("steering", "clear")


def test_a_clean_stop_removes_its_own_taints(sites: Sites) -> None:
    # Long before the next cycle, which removes what has served its purpose.
    with service(sites, "--interval", "60s", ALONE, nodeSelector=f"{SITE}={HERE}") as replica:
        replica.wait_until("a taint", sites.steered)
        until = datetime.now(UTC) + timedelta(hours=1)
        others = KubernetesSteerer(connect(sites.plane.admin_kubeconfig, None))
        assert others.taint("left", until).done
    assert sites.steered().keys() == {"left"}
    (removed,) = replica.events("taint.removed")
    assert (removed["node"], removed["why"]) == (f"{HERE}-hot", "desched is stopping")
    assert others.untaint("left").done
