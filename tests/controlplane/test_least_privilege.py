"""Every shipped right is used in a full life, none is missing, and without each something ends.

docs/operations-reference.md has what ends; those sentences choose the check.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.cli import main
from desched.model.cluster import PodRef
from desched.service.election.leadership import Leadership, LeaseTiming
from desched.service.process.clock import SystemClock
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, lacks_samples
from tests.controlplane.lives import BY_METRICS_SERVER, SHIPPED, STATE, STEERING, Lives, Right
from tests.controlplane.manifests import Object, pod_spec
from tests.controlplane.sites import SITE, Site, lone

GRANTED_BY = re.compile(r' of (ClusterRole|Role) "([^"]+)"')


OF_DEVICES = tuple(right for right in SHIPPED if right.role == "desched-devices")
NEWER = {
    right for right in OF_DEVICES if right[2:] == ("watch", "resource.k8s.io", "devicetaintrules")
}
"""What only the API of Kubernetes 1.37 and later serves."""


AT_ONCE: Object = {"terminationGracePeriodSeconds": 0}


def hot(name: str) -> Site:
    """One move from the hot node suffices."""
    site = Site(name)
    site.node("hot", uses="2600m")
    site.node("cool")
    site.workload("web", ("hot", "hot"), "400m", cpu_request="400m", **AT_ONCE)
    return site


@pytest.fixture(scope="module")
def lives(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lives]:
    directory: Path = tmp_path_factory.mktemp("lives")
    with running_control_plane.prometheus() as prometheus:
        built = Lives(running_control_plane, prometheus, directory)
        try:
            running_control_plane.serve_vertical_autoscalers()
            built.build(
                hot("plain"), hot("told"), lone("unsteered", **AT_ONCE), lone("acting", **AT_ONCE)
            )
            yield built
        finally:
            running_control_plane.reset()


def used(request: Object) -> Right | None:
    """The right that a request was allowed by, None if everybody has it."""
    granted = GRANTED_BY.search(request["annotations"]["authorization.k8s.io/reason"])
    if granted is None or "objectRef" not in request:
        return None
    about = request["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    kind, role = granted.groups()
    return Right(kind, role, request["verb"], about.get("apiGroup", ""), resource)


def test_the_shipped_rights_are_enough(lives: Lives) -> None:
    assert lives.requests
    refused = [
        (request["verb"], request["requestURI"])
        for request in lives.requests
        if request["responseStatus"]["code"] in {401, 403}
        # A person may have the right to it, and a single look does without.
        and not request["requestURI"].endswith("/services/desched")
    ]
    assert refused == []


def test_each_shipped_right_is_used_and_no_other(lives: Lives) -> None:
    rights = {right for request in lives.requests if (right := used(request)) is not None}
    of_everybody = {"system:discovery", "system:public-info-viewer", "system:basic-user"}

    assert {right for right in rights if right.role not in of_everybody} == SHIPPED.keys() - NEWER


class Ran(NamedTuple):
    """What a run in this process came to."""

    code: int
    report: Object
    log: str

    @property
    def verdicts(self) -> set[str]:
        """What became of its evictions, of which there was at least one."""
        assert self.report["plan"]["evictions"], self.report["plan"]
        return {outcome["verdict"] for outcome in self.report["outcomes"]}

    def logged(self, event: str) -> list[Object]:
        """The log's entries of this event."""
        entries = (json.loads(line) for line in self.log.splitlines() if line.startswith("{"))
        return [entry for entry in entries if entry["event"] == event]

    @property
    def details(self) -> str:
        """Why."""
        return "; ".join(outcome["detail"] for outcome in self.report["outcomes"])


class Case(NamedTuple):
    """A right that is missing, and where that shows."""

    lives: Lives
    capsys: pytest.CaptureFixture[str]
    right: Right

    def run(self, site: str, *flags: str, **load_aware: Any) -> Ran:
        """One cycle on a site."""
        once = ("--once", ALONE, "--state-namespace", STATE, "--output", "json")
        flags = (*flags, "--log-format", "json")
        load_aware["nodeSelector"] = f"{SITE}={site}"
        arguments = self.lives.arguments(*once, *flags, **load_aware)
        words = arguments[3:]  # without the interpreter and its module
        ran = self.lives.plane.wait_for("a cycle in time", lambda: self._in_time(words))
        assert ran is not None
        return ran

    def _in_time(self, arguments: list[str]) -> Ran | None:
        """A run, None if a scrape came too late for it."""
        self.capsys.readouterr()
        code = main(arguments)
        out, err = self.capsys.readouterr()
        report: Object = json.loads(out) if out else {}
        late = report and not report["outcomes"] and lacks_samples(report)
        return None if late else Ran(code, report, err)

    def set_state(self, *, exists: bool) -> None:
        """An empty one, or none."""
        collection = f"/api/v1/namespaces/{STATE}/configmaps"
        self.lives.plane.request("DELETE", f"{collection}/desched-state")
        if exists:
            body = {"metadata": {"name": "desched-state"}}
            assert self.lives.plane.request("POST", collection, body)[0] == 201

    def own_events(self) -> EventWriter:
        """What writes Events about desched's own pod."""
        own = PodRef(STATE, "desched-0")
        return EventWriter(connect(self.lives.kubeconfig, None), SystemClock(), own)


def no_cycle(case: Case) -> None:
    ran = case.run("plain")
    assert ran.code == 3
    assert f"the account may not {SHIPPED[case.right]} (403); grant it" in ran.log


def no_cycle_of_metrics_server(case: Case) -> None:
    ran = case.run("plain", **BY_METRICS_SERVER)
    assert ran.code == 3
    assert f"the account may not {SHIPPED[case.right]} (403)" in ran.log
    assert case.run("plain").report["result"] == "planned"


def not_watched(case: Case) -> None:
    (case.lives.directory / "plain-0.log").unlink(missing_ok=True)  # of an earlier service
    service = case.lives.service("plain", "--dry-run", ALONE, "--state-namespace", STATE)
    why = f"the account may not {SHIPPED[case.right]} (403); grant it"
    try:
        service.wait_until(
            why, lambda: any(why in e["why"] for e in service.events("cycle.skipped"))
        )
        assert not service.cycles
    finally:
        service.stop()


def not_sized(case: Case) -> None:
    (case.lives.directory / "plain-0.log").unlink(missing_ok=True)  # of an earlier service
    service = case.lives.service("plain", "--dry-run", ALONE, "--state-namespace", STATE)
    try:
        service.wait_for_cycles(2)
    finally:
        service.stop()
    (warning,) = service.events("right.not_granted")
    assert warning["right"] == str(SHIPPED[case.right])
    ran = case.run("plain")
    assert ran.report["result"] == "planned"
    assert len(ran.logged("right.not_granted")) == (case.right.verb == "list")


def not_read_again(case: Case) -> None:
    ran = case.run("plain", "--evict")
    assert ran.verdicts == {"unreadable"}
    assert f"the account may not {case.right.verb} {case.right.resource} (403)" in ran.details


def not_evicted(case: Case) -> None:
    ran = case.run("plain", "--evict")
    assert ran.verdicts == {"forbidden"}
    assert 'cannot create resource "pods/eviction"' in ran.details


def without_events(case: Case) -> None:
    ran = case.run("told", "--evict")
    assert ran.verdicts == {"evicted"}
    (warning,) = ran.logged("event.not_written")
    assert 'cannot create resource "events"' in warning["error"]
    assert not case.lives.told("told")


def not_steered(case: Case) -> None:
    ran = case.run("unsteered", "--evict", **STEERING)
    assert ran.report["result"] == "nothing_movable"
    assert ran.report["plan"]["unsteered"] == {"pods": 1, "nodes": 1}
    assert len(ran.logged("steering.not_granted")) == 1


def not_remembered(case: Case) -> None:
    ran = case.run("plain", "--evict")
    assert ran.code == 3
    assert f"the account may not get configmaps in namespace {STATE} (403)" in ran.log
    ran = case.run("plain")
    assert (ran.code, ran.report["result"]) == (0, "planned")
    assert len(ran.logged("state.not_read")) == 1


def not_written(case: Case) -> None:
    case.set_state(exists=case.right.verb == "patch")
    ran = case.run("plain", "--evict")
    assert ran.verdicts == {"not_begun"}
    assert f"may not {case.right.verb} configmaps in namespace {STATE} (403)" in ran.details


def not_leading(case: Case) -> None:
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{STATE}/leases"
    case.lives.plane.request("DELETE", f"{collection}/desched")
    if case.right.verb == "patch":
        body = {"metadata": {"name": "desched"}, "spec": {"holderIdentity": ""}}
        assert case.lives.plane.request("POST", collection, body)[0] == 201
    lease = KubernetesLease(connect(case.lives.kubeconfig, None), STATE)
    clock = SystemClock()
    replica = Leadership(lease, "one", LeaseTiming(), now=clock.now, random=lambda: 0.0)
    replica.step()
    assert not replica.may_act()
    assert f'cannot {case.right.verb} resource "leases"' in str(replica.why_not())
    assert case.run("plain").report["result"] == "planned"  # alone it does not ask for the Lease


def without_logbook(case: Case) -> None:
    (case.lives.directory / "plain-0.log").unlink(missing_ok=True)  # of an earlier service
    service = case.lives.service("plain", "--dry-run", ALONE, "--state-namespace", STATE)
    try:
        service.wait_for_cycles(2)
    finally:
        service.stop()
    (warning,) = service.events("logbook.not_written")
    assert f"the account may not {SHIPPED[case.right]}" in warning["why"]


def not_described(case: Case) -> None:
    plane, note = case.lives.plane, "seen only by who knows the uid"
    metadata = {"name": "desched-0", "namespace": STATE}
    spec = {**pod_spec(), "nodeName": "plain-cool"}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert case.own_events().warn_on_self("PolicyRefused", note)
    assert case.lives.told(STATE, "PolicyRefused")
    assert note not in plane.kubectl("describe", "pod", "desched-0", "--namespace", STATE)


def without_own_events(case: Case) -> None:
    events = case.own_events()
    with structlog.testing.capture_logs() as logs:
        assert not any(events.warn_on_self("PolicyRefused", "why") for _ in range(3))
    (warning,) = (entry for entry in logs if entry["log_level"] == "warning")
    assert 'cannot create resource "events"' in warning["error"]


CHECKS: Mapping[str, Callable[[Case], None]] = {
    "no cycle runs: the cluster cannot be observed": no_cycle,
    "no cycle runs with `metrics.type: metrics-server`": no_cycle_of_metrics_server,
    "no cycle of a service runs, unless `--watch=false`": not_watched,
    "replacements are expected to request what their templates say, and one warning is logged": (
        not_sized
    ),
    "no replica acts (`not_leading`), unless `--leader-elect=false`": not_leading,
    "no cycle that evicts runs; a dry run plans without it, and warns once": not_remembered,
    "`desched report` and `desched history` have nothing, and one warning is logged": (
        without_logbook
    ),
    "`kubectl describe pod` does not show these Events": not_described,
    "these Events are missing, and one warning is logged": without_own_events,
    "nothing is evicted (`unreadable`)": not_read_again,
    "nothing is evicted (`forbidden`)": not_evicted,
    "nothing is evicted (`not_begun`)": not_written,
    "moves leave no Events, and one warning is logged": without_events,
    "desched plans without soft taints, and each report has what that costs": not_steered,
}
"""How it shows that what is documented happens."""


def test_without_the_rights_to_devices_cycles_go_on(
    lives: Lives, capsys: pytest.CaptureFixture[str]
) -> None:
    with lives.without(*OF_DEVICES):
        ran = Case(lives, capsys, OF_DEVICES[0]).run("plain")
    assert ran.report["result"] == "planned"
    missing = {warning["right"] for warning in ran.logged("right.not_granted")}
    assert missing == {str(SHIPPED[right]) for right in OF_DEVICES if right.verb == "list"}


ONE_BY_ONE = [right for right in SHIPPED if right not in OF_DEVICES]


@pytest.mark.parametrize("right", ONE_BY_ONE, ids=str)
def test_without_a_right_what_is_documented_ends(
    lives: Lives, capsys: pytest.CaptureFixture[str], right: Right
) -> None:
    case = Case(lives, capsys, right)
    case.set_state(exists=False)
    same_everywhere = [  # what the overlays grant in all namespaces hides what the base grants
        other
        for other in SHIPPED
        if other.kind == "ClusterRole" and right.kind == "Role" and other[2:] == right[2:]
    ]
    with lives.without(right, *same_everywhere):
        CHECKS[SHIPPED[right].without](case)
