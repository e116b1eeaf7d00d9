"""Replicas contend for a Lease of a real API server."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Protocol

import pytest

from desched.adapters.kubernetes.client.access import OWN_NAMESPACE_ACCESS
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.lease import DEADLINE_SECONDS, KubernetesLease
from desched.errors import LeaseError
from desched.ports import Lease, LeaseRecord
from desched.service.election.leadership import Leadership, LeaseTiming
from desched.service.process.clock import seconds_since_boot
from tests.contracts.lease_contract import LeaseContract
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import role, rule, service_account
from tests.controlplane.waiting import wait_for

NAME = "desched"
QUICK = LeaseTiming(duration_seconds=3, renew_deadline_seconds=2.0, retry_period_seconds=0.2)
LASTING = LeaseTiming(duration_seconds=600, renew_deadline_seconds=500, retry_period_seconds=0.2)
"""Beyond the patience of any test: nobody gets such a lease by waiting for its end."""

SINCE = datetime(2026, 1, 10, 8, tzinfo=UTC)
RECORD = LeaseRecord("a", 15, 0, SINCE, SINCE)


def collection(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def labels(control_plane: ControlPlane, namespace: str) -> Any:
    return control_plane.get(f"{collection(namespace)}/{NAME}")["metadata"].get("labels")


class RealLab:
    """A lease beside whatever else is in the cluster, which hence need not be emptied for it."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._path = f"{collection('default')}/{NAME}"
        self.lease = self.another_handle()

    def another_handle(self, deadline_seconds: float = DEADLINE_SECONDS) -> KubernetesLease:
        connection = connect(self._control_plane.admin_kubeconfig, None)
        return KubernetesLease(connection, "default", NAME, deadline_seconds=deadline_seconds)

    def delete(self) -> None:
        self._control_plane.request("DELETE", self._path)

    def touch(self) -> None:
        change = {"metadata": {"labels": {"touched": "by-somebody"}}}
        self._control_plane.request("PATCH", self._path, change)


@pytest.fixture
def lab(running_control_plane: ControlPlane) -> Iterator[RealLab]:
    lab = RealLab(running_control_plane)
    yield lab
    lab.delete()


class TestRealLease(LeaseContract):
    """The fixture `lab` is the module's."""


def may(control_plane: ControlPlane, namespace: str, verbs: list[str]) -> Path:
    """The account of a replica that may do so much with leases of its namespace."""
    here = {"namespace": namespace, "name": "replica"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here}
    rules = [rule("coordination.k8s.io", "leases", verbs=verbs)]
    subject = service_account(namespace, "replica")
    control_plane.apply(account, *role("replica", subject, rules, namespace))
    return control_plane.kubeconfig_for(namespace, "replica")


def test_the_declared_access_is_enough_and_labels_of_others_stay(
    control_plane: ControlPlane,
) -> None:
    namespace = control_plane.create_namespace()
    kubeconfig = may(
        control_plane, namespace, [a.verb for a in OWN_NAMESPACE_ACCESS if a.resource == "leases"]
    )
    lease = KubernetesLease(connect(kubeconfig, None), namespace)

    def created() -> bool:  # the authorizer learns of the Role a moment later
        try:
            return lease.read() is not None or lease.create(RECORD) is not None
        except LeaseError:
            return False

    control_plane.wait_for("the lease is created", created)
    path = f"{collection(namespace)}/{NAME}"
    control_plane.request("PATCH", path, {"metadata": {"labels": {"team": "a"}}})
    found = lease.read()
    assert found is not None
    assert lease.replace(found) is not None
    assert labels(control_plane, namespace) == {"team": "a"}


def test_an_account_without_rights_is_told_so(control_plane: ControlPlane) -> None:
    namespace = control_plane.create_namespace()
    lease = KubernetesLease(connect(may(control_plane, namespace, ["watch"]), None), namespace)
    with pytest.raises(LeaseError, match=r"403: leases.* is forbidden"):
        lease.read()


def test_a_namespace_that_does_not_exist_is_told(control_plane: ControlPlane) -> None:
    lease = KubernetesLease(connect(control_plane.admin_kubeconfig, None), "nowhere")
    assert lease.read() is None
    with pytest.raises(LeaseError, match='404: namespaces "nowhere" not found'):
        lease.create(RECORD)


# Two replicas


class Cable:
    """A Lease whose calls can be made to fail, as when the API server refuses them."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.cut = Event()

    def read(self) -> LeaseRecord | None:
        return self._through(self._lease.read)

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        return self._through(lambda: self._lease.create(record))

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        return self._through(lambda: self._lease.replace(record))

    def _through(self, call: Callable[[], LeaseRecord | None]) -> LeaseRecord | None:
        if self.cut.is_set():
            raise LeaseError("the API server refuses")
        return call()


class Replica(NamedTuple):
    leadership: Leadership
    cable: Cable


class Start(Protocol):
    def __call__(self, identity: str, timing: LeaseTiming = QUICK) -> Replica: ...


@pytest.fixture
def replica(lab: RealLab) -> Start:
    """Starts replicas with a lease that the last one has released."""
    lab.lease.create(LeaseRecord("", 3, 7, SINCE, SINCE))
    return starter(lab)


def starter(lab: RealLab) -> Start:
    def start(identity: str, timing: LeaseTiming = QUICK) -> Replica:
        handle = lab.another_handle(min(timing.request_seconds, DEADLINE_SECONDS))
        cable = Cable(handle)
        leadership = Leadership(cable, identity, timing, now=lambda: SINCE, random=lambda: 0.5)
        return Replica(leadership, cable)

    return start


def acting(*replicas: Replica) -> list[str]:
    return [r.leadership.identity for r in replicas if r.leadership.may_act()]


def test_of_replicas_that_start_at_once_without_a_lease_one_leads(lab: RealLab) -> None:
    start = starter(lab)
    a, b = start("a"), start("b")
    began_at = seconds_since_boot()
    with a.leadership.contend(), b.leadership.contend():
        wait_for("one leads", lambda: acting(a, b))
        assert seconds_since_boot() - began_at >= QUICK.duration_seconds
        one, other = a.leadership, b.leadership
        wait_for("both know", lambda: [one.holder, other.holder] == acting(a, b) * 2)


def test_a_released_lease_is_taken_long_before_it_would_expire(replica: Start) -> None:
    a, b = replica("a", LASTING), replica("b", LASTING)
    with a.leadership.contend():
        wait_for("a leads", a.leadership.may_act)
        with b.leadership.contend():
            wait_for("b follows", lambda: b.leadership.holder == "a")
            a.leadership.stop()
            wait_for("b leads", b.leadership.may_act)
            assert not a.leadership.may_act()
            assert (a.leadership.transitions, b.leadership.transitions) == (8, 9)


def test_a_holder_that_dies_is_followed_once_its_lease_has_expired(replica: Start) -> None:
    a, b = replica("a"), replica("b")
    a.leadership.step()
    died_at = seconds_since_boot()  # it takes no further step
    with b.leadership.contend():
        wait_for("b leads", b.leadership.may_act)
    assert seconds_since_boot() - died_at >= QUICK.duration_seconds
    assert not a.leadership.may_act()


def test_a_holder_whose_calls_are_refused_stops_before_the_other_starts(replica: Start) -> None:
    replicas = [replica("a"), replica("b")]
    one, other = replicas
    with one.leadership.contend(), other.leadership.contend():
        (leader,) = wait_for("one leads", lambda: acting(*replicas))
        holder, follower = sorted(replicas, key=lambda each: each.leadership.identity != leader)
        holder.cable.cut.set()

        def changed_hands() -> bool:
            acts = follower.leadership.may_act()  # asked first: else the holder might stop between
            assert not (acts and holder.leadership.may_act())
            return acts

        wait_for("the follower leads", changed_hands)
        holder.cable.cut.clear()
        name = follower.leadership.identity
        wait_for("the holder follows", lambda: holder.leadership.holder == name)


def test_an_api_server_that_answers_again_has_a_holder_again(replica: Start) -> None:
    a, b = replica("a"), replica("b")
    with a.leadership.contend(), b.leadership.contend():
        wait_for("one leads", lambda: acting(a, b))
        for each in (a, b):
            each.cable.cut.set()
        wait_for("none acts", lambda: not acting(a, b))
        for each in (a, b):
            each.cable.cut.clear()
        wait_for("one leads", lambda: acting(a, b))
