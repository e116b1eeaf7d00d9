from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from desched.cycle import decide
from desched.model.cluster import ClusterState
from desched.model.model_caches import CACHE_KEY
from desched.policy.loading import parse_policy
from desched.snapshot_file.redaction import ANNOTATIONS, labels_read, labels_read_by, redacted
from tests.builders import load, node, pod, policy, selector, snapshot
from tests.properties.rich_clusters import POLICY, RichCluster

BY = parse_policy(*POLICY).policy


class Watched(dict[str, str]):
    """Labels that note which keys are asked for."""

    def __init__(self, labels: Mapping[str, str], asked: set[str]) -> None:
        super().__init__(labels)
        self._asked = asked

    def __getitem__(self, key: str) -> str:
        self._asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.add(key)
        return super().get(key, default)


def test_every_label_and_annotation_that_a_cycle_asks_for_is_kept() -> None:
    for seed in range(40):
        cluster = RichCluster(seed)
        seen = cluster.snapshot()
        asked: dict[str, set[str]] = {"nodes": set(), "pods": set(), "notes": set()}
        watched = replace(
            seen.cluster,
            nodes=tuple(
                replace(n, labels=Watched(n.labels, asked["nodes"])) for n in seen.cluster.nodes
            ),
            pods=tuple(
                replace(
                    p,
                    labels=Watched(p.labels, asked["pods"]),
                    annotations=Watched(p.annotations, asked["notes"]),
                )
                for p in seen.cluster.pods
            ),
        )
        decide(replace(seen, cluster=watched), BY, cluster.state())

        kept = labels_read(seen.cluster, BY)

        assert asked["nodes"] <= set(kept.nodes)
        no_size = {""}  # asked for where a system of gangs has no key with a size
        assert asked["pods"] - no_size <= set(kept.pods)
        assert asked["notes"] - no_size <= ANNOTATIONS


def cluster_with(**fields: object) -> ClusterState:
    pods = [pod("p", on="n", scheduling={"images": ("reg.example/web:1",)})]
    nodes = [node("n", images={"reg.example/web:1": 7, "other": 8}, addresses=("10.0.0.1",))]
    return replace(snapshot(nodes, pods, load({"n": (0.1, 0.1)})).cluster, **fields)


def test_images_become_numbers_and_those_of_no_pod_go() -> None:
    seen = snapshot((), (), load({}))
    cluster = cluster_with()

    found = redacted(replace(seen, cluster=cluster), labels_read(cluster, policy())).cluster

    assert found.nodes[0].images == {"image-1": 7}
    assert found.nodes[0].addresses == ()
    assert found.pods[0].scheduling.images == ("image-1",)


def test_labels_of_a_policy_are_those_that_it_selects_by() -> None:
    found = labels_read_by(policy(node_selector=selector(pool="batch"))).without(
        labels_read_by(policy())
    )

    assert str(found) == "node label pool"
    assert str(labels_read_by(policy())) == ""


def test_the_labels_of_models_are_kept() -> None:
    """R1.2: a plan of a snapshot file knows which nodes hold the model of a pod."""
    cluster = cluster_with(pods=(pod("p", on="n", annotations={CACHE_KEY: "llama=v2"}),))

    assert "cache.desched.io/llama" in labels_read(cluster, policy()).nodes
    assert CACHE_KEY in ANNOTATIONS
