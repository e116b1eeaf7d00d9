"""Memory in a real ConfigMap behaves as the contract says, with the rights of its Role alone."""

from collections.abc import Iterator

import pytest

from desched.adapters.kubernetes.client.access import OWN_NAMESPACE_ACCESS
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.state_store import (
    CONFIG_MAP,
    SET_ASIDE_KEY,
    STATE_KEY,
    KubernetesStateStore,
)
from desched.cli.command import Invocation
from desched.cli.lazy_loading import load_to_run
from desched.errors import ObservationError, StateRefused
from tests.contracts.state_store_contract import FIRST, StateStoreContract
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import role, rules_of, service_account

ACCOUNT = "default"


class RealLab:
    """The stores have the rights of the Role; the person who meddles is an administrator."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.namespace = control_plane.create_namespace()
        rules = rules_of(*OWN_NAMESPACE_ACCESS)
        account = service_account(self.namespace, ACCOUNT)
        control_plane.apply(*role("desched", account, rules, self.namespace))
        self._kubeconfig = control_plane.kubeconfig_for(self.namespace, ACCOUNT)
        self.path = f"/api/v1/namespaces/{self.namespace}/configmaps/{CONFIG_MAP}"
        control_plane.wait_for("the rights of the Role", self._may_load)

    def _may_load(self) -> bool:
        try:
            self.store().load()
        except ObservationError:  # the authorizer learns of the Role a moment later
            return False
        return True

    def store(self) -> KubernetesStateStore:
        return KubernetesStateStore(connect(self._kubeconfig, None), self.namespace)

    def write(self, text: str | None) -> None:
        if text is None:
            self.control_plane.request("DELETE", self.path)
            return
        self.control_plane.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": CONFIG_MAP, "namespace": self.namespace},
                "data": {STATE_KEY: text},
            }
        )

    def set_aside(self) -> str:
        data: dict[str, str] = self.control_plane.get(self.path)["data"]
        return data.get(SET_ASIDE_KEY, "")


@pytest.fixture(scope="module")
def shared_lab(running_control_plane: ControlPlane) -> Iterator[RealLab]:
    """One namespace for all, because deleting namespaces takes longest."""
    yield RealLab(running_control_plane)
    running_control_plane.reset()


@pytest.fixture
def lab(shared_lab: RealLab) -> RealLab:
    shared_lab.write(None)
    return shared_lab


class TestKubernetesMemoryStore(StateStoreContract):
    pass


def test_what_others_keep_on_the_object_stays(lab: RealLab) -> None:
    store = lab.store()
    store.save(FIRST)
    lab.control_plane.request(
        "PATCH",
        lab.path,
        {"metadata": {"annotations": {"example.com/team": "a"}}, "data": {"notes": "ours"}},
    )
    store.load()
    store.save(FIRST)
    found = lab.control_plane.get(lab.path)
    assert found["metadata"]["annotations"]["example.com/team"] == "a"
    assert found["metadata"]["labels"] == {"app.kubernetes.io/name": "desched"}
    assert found["data"]["notes"] == "ours"


def test_without_its_rights_it_says_which_and_nothing_is_written(lab: RealLab) -> None:
    stranger = lab.control_plane.create_namespace()
    kubeconfig = lab.control_plane.kubeconfig_for(stranger, ACCOUNT)
    store = KubernetesStateStore(connect(kubeconfig, None), lab.namespace)
    with pytest.raises(ObservationError, match=f"get configmaps in namespace {lab.namespace}"):
        store.load()
    with pytest.raises(StateRefused, match=f"create configmaps in namespace {lab.namespace}"):
        store.save(FIRST)
    assert lab.store().load().state is None


def test_a_namespace_that_does_not_exist_is_nothing_remembered_and_refuses_a_save(
    lab: RealLab,
) -> None:
    store = KubernetesStateStore(connect(lab.control_plane.admin_kubeconfig, None), "nowhere")
    assert store.load().state is None
    with pytest.raises(StateRefused, match="kubectl create namespace nowhere"):
        store.save(FIRST)


def test_an_immutable_configmap_is_refused_in_words(lab: RealLab) -> None:
    store = lab.store()
    store.save(FIRST)
    lab.control_plane.request("PATCH", lab.path, {"immutable": True})
    store.load()
    with pytest.raises(StateRefused, match="immutable"):
        store.save(type(FIRST)())


def test_a_person_pauses_looks_and_resumes(
    lab: RealLab, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "kubeconfig": str(lab.control_plane.admin_kubeconfig),
        "state_namespace": lab.namespace,
    }

    def says(name: str, warning: str = "", **flags: str) -> str:
        load_to_run(name).run(Invocation(flags, texts))
        printed = capsys.readouterr()
        assert warning in printed.err
        assert bool(warning) == bool(printed.err)
        return " ".join(printed.out.split())

    assert "There is none yet" in says("status")
    absent = "There is no Deployment, StatefulSet, ReplicaSet or Job shop/web now"
    paused = says("pause", absent, workload="shop/web", **{"for": "2h"})
    assert "Paused workload shop/web" in paused
    assert "Paused everything until" in says("pause", because="a storage upgrade")
    shown = says("status")
    assert "everything until it is resumed" in shown
    assert "a storage upgrade" in shown
    assert "workload shop/web ends in 2 h" in shown
    assert "no leader election" in shown
    assert "Ended the pause of everything" in says("resume")
    state = lab.store().load().state
    assert state is not None
    assert [pause.subject for pause in state.pauses] == ["shop/web"]
    assert "Ended the pause of workload shop/web" in says("resume", all="")
    assert "There was no pause" in says("resume")
