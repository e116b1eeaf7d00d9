"""Pods with GPUs stay by default, and so do pods whose networks or claims are not known."""

import pytest

from desched.model.cluster import PodVolume, VolumeKind
from desched.model.devices import INTERFACES
from tests.builders import amounts
from tests.unit.planning.eligibility.candidate import Candidate

GPUS = amounts(0.1, 0.1, **{"nvidia.com/gpu": 8})


def test_a_pod_with_gpus_stays() -> None:
    """S3.6: the load of a host's CPU is no reason to move a GPU pod."""
    assert Candidate(request=GPUS).finding() == ("gpu_pod", "nvidia.com/gpu: 8")


def test_the_policy_or_an_annotation_lets_it_move() -> None:
    by_policy = Candidate(request=GPUS)
    by_policy.protections["gpu_pods"] = False
    assert by_policy.reason is None
    assert Candidate(request=GPUS).annotate("desched.io/evict", "true").reason is None


@pytest.mark.parametrize("name", ["hugepages-2Mi", "vpc.amazonaws.com/efa"])
def test_other_extended_resources_do_not_protect(name: str) -> None:
    assert Candidate(request=amounts(0.1, 0.1, **{name: 1})).reason is None


@pytest.mark.parametrize(("text", "reason"), [("[", "networks_unknown"), ("[]", None)])
def test_a_pod_whose_networks_cannot_be_read_stays(text: str, reason: str | None) -> None:
    """R3.2: malformed JSON keeps the pod, and no annotation lifts that."""
    one = Candidate().annotate(INTERFACES, text).annotate("desched.io/evict", "true")
    assert one.reason == reason


def test_a_pod_with_a_resource_claim_stays_whatever_it_asks() -> None:
    """R3.4: shared claims, claims from templates and ComputeDomains alike: never alone."""
    one = Candidate(has_resource_claims=True).annotate("desched.io/evict", "true")
    assert one.reason == "resource_claims"


def test_a_pod_with_the_paths_of_a_fast_network_and_memory_is_no_local_storage() -> None:
    """R1.1, R3.5: driver paths and emptyDirs in memory do not keep a pod that has its devices."""
    paths = ("/home/kubernetes/bin/nvidia/lib64", "/run/tcpx", "/sys", "/proc/sys")
    mounts = [PodVolume(VolumeKind.HOST_PATH, path=path) for path in paths]
    shm = PodVolume(VolumeKind.EMPTY_DIR, in_memory=True)
    one = Candidate(request=GPUS, volumes=(*mounts, shm))
    one.protections["gpu_pods"] = False
    assert one.reason is None
