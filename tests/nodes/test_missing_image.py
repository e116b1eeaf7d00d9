"""An evicted pod goes on for 20 s after SIGTERM, and no other node can pull its image."""

from tests.controlplane.replicas import Replica
from tests.nodes.lab import Lab
from tests.nodes.story import HOT, WORKLOAD, Story

PULL_FAILED = (", ErrImagePull", ", ImagePullBackOff")


def results(service: Replica) -> list[str]:
    """What became of the moves, as the log says."""
    return [line for cycle in service.cycles for line in cycle.get("settled_moves", ())]


def test_the_kubelet_s_reason_is_told_once_the_pod_has_left_and_the_workload_rests(
    lab: Lab, story: Story
) -> None:
    story.begin("rare", "-grace=20s")
    lab.registry.names.discard("rare")
    with story.service() as service:
        service.wait_until("an eviction", story.evictions)
        (evicted,) = story.evictions()
        path = f"/api/v1/namespaces/{story.namespace}/pods/{evicted}"
        known: list[str] = []

        def has_left() -> bool:
            known[:] = results(service)  # before the look at the pod
            return lab.plane.request("GET", path)[0] == 404

        service.wait_until("it leaves", has_left)
        assert known == []
        (told,) = service.wait_until("a result", lambda: results(service))
        assert f"{story.namespace}/{evicted} from {HOT}: not_ready on node" in told
        assert told.endswith(PULL_FAILED)
        service.wait_for_cycles(2)
        assert story.evictions() == [evicted]
    refused = story.refused(WORKLOAD)
    assert len(refused) == 2
    assert all(why.startswith("cooling_down") for why in refused.values()), refused
