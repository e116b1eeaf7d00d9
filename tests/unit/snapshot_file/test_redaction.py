from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from desched.decision import decide
from desched.gangs.objects import DeclaredGroup, GangObjects, GroupPart
from desched.gangs.pod_groups import GROUP_PREFIXES
from desched.gangs.topology import GroupTopology
from desched.model.cluster import (
    ClusterState,
    PersistentVolume,
    PodAffinityTerm,
    Service,
    SpreadConstraint,
    StorageClass,
)
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.network.objects import NetworkObjects, Topology
from desched.plugins.annotations import ANNOTATIONS
from desched.plugins.caches.models import CACHE_KEY
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.plugins.gpus.plugin import Gpus
from desched.policy_file.loading import parse_policy
from desched.snapshot_file.redaction import labels_read, labels_read_by, redacted
from tests.builders import budget, house, load, node, pod, policy, selector, snapshot
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


def test_the_labels_of_reserves_of_gpus_are_kept() -> None:
    rules = GpuDrainRules(reserves=(Reserve(8), Reserve(8, domain="example.com/rack")))
    assert (
        "example.com/rack" in labels_read(cluster_with(), policy(plugins=house(Gpus(rules)))).nodes
    )


ANY = LabelSelector((Requirement("key", Operator.EXISTS),))
TERMS = (NodeSelectorTerm(ANY.requirements),)
NEAR = PodAffinityTerm("zone-key", ANY, namespace_selector=selector(team="a"))
SPREAD = SpreadConstraint("zone-key", 1, hard=True, selector=ANY, match_label_keys=("hash",))


def with_pod(**scheduling: object) -> ClusterState:
    return cluster_with(pods=(pod("p", on="n", scheduling=scheduling),))


@pytest.mark.parametrize(
    ("cluster", "nodes", "pods", "namespaces"),
    [
        (with_pod(node_selector=(("key", "a"),)), {"key"}, set(), set()),
        (with_pod(required_node_affinity=TERMS), {"key"}, set(), set()),
        (with_pod(preferred_node_affinity=((1, TERMS[0]),)), {"key"}, set(), set()),
        (with_pod(pod_affinity=(NEAR,)), {"zone-key"}, {"key"}, {"team"}),
        (with_pod(pod_anti_affinity=(NEAR,)), {"zone-key"}, {"key"}, {"team"}),
        (with_pod(preferred_pod_affinity=(NEAR,)), {"zone-key"}, {"key"}, {"team"}),
        (with_pod(spread=(SPREAD,)), {"zone-key"}, {"key", "hash"}, set()),
        (cluster_with(budgets=(budget("b", 1, key="a"),)), set(), {"key"}, set()),
        (cluster_with(controller_selectors={("apps", "u"): ANY}), set(), {"key"}, set()),
        (cluster_with(services=(Service("apps", "s", {"key": "a"}),)), set(), {"key"}, set()),
        (
            cluster_with(volumes={"v": PersistentVolume("v", node_affinity=TERMS)}),
            {"key"},
            set(),
            set(),
        ),
        (
            cluster_with(storage_classes={"s": StorageClass("s", "p", topologies=TERMS)}),
            {"key"},
            set(),
            set(),
        ),
        (
            cluster_with(
                extras=NetworkObjects(topologies=(Topology("Kueue", "t", ("key",)),)).extras
            ),
            {"key"},
            set(),
            set(),
        ),
        (
            cluster_with(
                extras=GangObjects(
                    (
                        DeclaredGroup(
                            "Volcano",
                            "apps",
                            "g",
                            parts=(GroupPart("p", 1, ANY, ("hash",)),),
                            topology=GroupTopology(hard=True, level="level"),
                        ),
                    )
                ).extras
            ),
            {"level"},
            {"key", "hash"},
            set(),
        ),
    ],
)
def test_the_labels_by_which_objects_select_and_place_are_kept(
    cluster: ClusterState, nodes: set[str], pods: set[str], namespaces: set[str]
) -> None:
    """Without one of them, the plan of a snapshot file would differ."""
    kept, always = labels_read(cluster, policy()), labels_read(cluster_with(pods=()), policy())
    found = kept.without(always)

    assert (set(found.nodes), set(found.pods), set(found.namespaces)) == (nodes, pods, namespaces)


def test_the_label_of_the_balance_scope_and_the_marks_of_gangs_are_kept() -> None:
    marked = cluster_with(pods=(pod("p", on="n", labels={f"{GROUP_PREFIXES[0]}0": "x"}),))
    kept = labels_read(marked, policy(balance_scope="rack"))

    assert "rack" in kept.nodes
    assert f"{GROUP_PREFIXES[0]}0" in kept.pods
