import msgspec
import pytest

from desched.model.cluster import ClusterState, Owner, PodRef
from desched.planning.other_deschedulers import other_deschedulers, split_others
from desched.policy.policy import OtherDescheduler
from tests.builders import pod, policy, workload


def running(image, **fields):
    return pod("x", on="a", scheduling={"images": ("busybox:1.36", image)}, **fields)


def found(*pods, **fields):
    return other_deschedulers(ClusterState(nodes=(), pods=pods, **fields))


@pytest.mark.parametrize(
    ("image", "maker"),
    [
        ("registry.k8s.io/descheduler/descheduler:v0.36.0", "kubernetes-sigs descheduler"),
        ("mirror.example:5000/x/descheduler@sha256:12ab", "kubernetes-sigs descheduler"),
        ("docker.io/volcanosh/vc-descheduler:v0.1.0", "Volcano descheduler"),
        ("ghcr.io/koordinator-sh/koord-descheduler:v1.6", "Koordinator descheduler"),
        ("registry.redhat.io/kube-descheduler-operator/descheduler-rhel9@sha256:12", "OpenShift"),
    ],
)
def test_it_is_known_by_its_image(image, maker):
    (one,) = found(running(image))
    assert one.startswith(maker)
    assert one.endswith(" in apps")


def test_those_that_the_policy_acknowledges_are_told_apart():
    others = found(running("volcanosh/vc-descheduler:1"), running("descheduler:1"))
    by = policy(acknowledged_deschedulers=(OtherDescheduler.VOLCANO,))
    assert split_others(others, policy()) == (others, ())
    assert split_others(others, by) == (
        ("kubernetes-sigs descheduler in apps",),
        ("Volcano descheduler in apps",),
    )


@pytest.mark.parametrize(
    ("labels", "maker"),
    [
        ({"app.kubernetes.io/name": "descheduler"}, "kubernetes-sigs descheduler"),
        ({"app": "descheduler"}, "kubernetes-sigs descheduler"),
        ({"koord-app": "koord-descheduler"}, "Koordinator descheduler"),
    ],
)
def test_a_renamed_image_is_known_by_its_labels(labels, maker):
    assert found(running("example.com/balancer:1", labels=labels)) == (f"{maker} in apps",)


def test_the_image_tells_more_than_the_labels():
    volcano = running("volcanosh/vc-descheduler:latest", labels={"app": "descheduler"})
    assert found(volcano) == ("Volcano descheduler in apps",)


@pytest.mark.parametrize(
    "image",
    [
        "example.com/desched:0.1.0",
        "example.com/descheduler/web:1",
        "openshift/cluster-kube-descheduler-operator:4.20",
        "example.com/descheduler-exporter:1",
    ],
)
def test_what_only_sounds_like_one_is_none(image):
    assert found(running(image, labels={"app.kubernetes.io/name": "desched"})) == ()


def test_replicas_are_one_and_namespaces_several():
    image = "registry.k8s.io/descheduler/descheduler:v0.36.0"
    assert found(
        running(image, uid="1"),
        running(image, uid="2"),
        running(image, uid="3", namespace="ops"),
    ) == ("kubernetes-sigs descheduler in apps", "kubernetes-sigs descheduler in ops")


def test_a_finished_pod_counts_only_as_the_last_run_of_a_cron_job():
    done = running("descheduler:v1", phase="Succeeded")
    of_job = Owner("Job", "descheduler-29551234", "uid-job", "batch/v1")
    assert found(done) == ()
    assert len(found(msgspec.structs.replace(done, owner=of_job))) == 1


def test_desched_is_not_another_one_even_under_such_a_name():
    mine = running("example.com/descheduler:mine", of="desched")
    peer = msgspec.structs.replace(mine, name="y", uid="uid-y")
    workloads = {("apps", "uid-desched"): workload("desched")}
    own = PodRef("apps", "x")
    assert found(mine, peer, workloads=workloads, own_pod=own) == ()
    assert found(mine, own_pod=own) == ()
    assert len(found(peer, workloads=workloads)) == 1
