"""Pods that are made to fill the memory or to slow planning are kept by their requests only."""

import tracemalloc
from typing import Any

import msgspec

from desched.adapters.kubernetes.client.api_types import pods
from desched.adapters.kubernetes.objects import bounded_constraints
from desched.adapters.kubernetes.objects.bounded_constraints import (
    FOREIGN_TERM_COST,
    MOST_TERMS,
    WHOLE_CLUSTER,
)
from desched.adapters.kubernetes.objects.metadata import LONGEST_ANNOTATION
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.api_objects.decoding import Decoder
from desched.model.cluster import Pod, PodAffinityTerm
from desched.model.selectors import LabelSelector
from tests.unit.adapters.kubernetes import manifests

HOST = "kubernetes.io/hostname"
EVERYTHING = LabelSelector()
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def built(document: dict[str, Any], builder: PodBuilder | None = None) -> Pod:
    make = (builder or PodBuilder()).pod
    return Decoder(pods.Pod, make).one(msgspec.json.encode(document))


def avoiding(*terms: dict[str, Any], kind: str = "podAntiAffinity") -> dict[str, Any]:
    document = manifests.pod()
    document["spec"]["affinity"] = {kind: {REQUIRED: list(terms)}}
    return document


def term(value: str, key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": value}}, **more}


def test_a_pod_with_many_terms_is_refused_with_their_number() -> None:
    most = built(avoiding(*(term(f"v{i}") for i in range(MOST_TERMS)), kind="podAffinity"))
    assert (len(most.scheduling.pod_affinity), most.scheduling.unevaluated) == (MOST_TERMS, ())
    more = built(avoiding(*(term(f"v{i}") for i in range(500)), kind="podAffinity"))
    assert more.scheduling.unevaluated == ("too large: 500 affinity terms, more than 64",)
    assert more.scheduling.pod_affinity == ()
    assert more.scheduling.requests == most.scheduling.requests


def coarse(*terms: dict[str, Any]) -> tuple[PodAffinityTerm, ...]:
    many = (term(f"v{i}") for i in range(MOST_TERMS))
    return built(avoiding(*many, *terms)).scheduling.pod_anti_affinity


def test_an_anti_affinity_that_is_not_kept_keeps_away_all_pods_that_it_may_be_about() -> None:
    own = PodAffinityTerm(HOST, EVERYTHING)
    everywhere = PodAffinityTerm(HOST, EVERYTHING, namespace_selector=EVERYTHING)
    assert coarse(term("x")) == (own,)
    assert coarse(term("x", namespaces=["shop"])) == (everywhere,)
    assert coarse(term("x", namespaceSelector={})) == (everywhere,)
    assert coarse(term("x", "zone")) == (own, PodAffinityTerm("zone", EVERYTHING))
    assert coarse({"topologyKey": "zone"}) == (own,)  # without a selector it is about no pod


def test_an_anti_affinity_with_many_topologies_is_about_the_whole_cluster() -> None:
    assert coarse(*(term("x", f"k{i}") for i in range(MOST_TERMS))) == (
        PodAffinityTerm(WHOLE_CLUSTER, EVERYTHING),
    )


def test_many_requirements_for_nodes_and_spread_constraints_are_refused() -> None:
    document = manifests.pod()
    exists = [{"key": f"k{i}", "operator": "Exists"} for i in range(300)]
    terms = {"nodeSelectorTerms": [{"matchExpressions": exists}]}
    document["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: terms}}
    assert built(document).scheduling.unevaluated == (
        "too large: 301 requirements for nodes, more than 256",
    )
    document = manifests.pod()
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    document["spec"]["topologySpreadConstraints"] = [
        {**spread, "topologyKey": f"k{i}"} for i in range(65)
    ]
    assert built(document).scheduling.unevaluated == (
        "too large: 65 spread constraints, more than 64",
    )


def test_terms_about_other_namespaces_count_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(bounded_constraints, "MOST_TERMS_OF_NAMESPACE", FOREIGN_TERM_COST)
    builder = PodBuilder()
    own = built(avoiding(term("a", namespaces=[manifests.pod()["metadata"]["namespace"]])), builder)
    assert own.scheduling.unevaluated == ()
    foreign = built(avoiding(term("a", namespaces=["other"])), builder)
    assert foreign.scheduling.unevaluated


def test_large_constraints_of_any_kind_are_refused_with_their_size() -> None:
    document = manifests.pod()
    document["spec"]["tolerations"] = [{"key": f"{'k' * 250}{i}"} for i in range(400)]
    (why,) = built(document).scheduling.unevaluated
    assert why.startswith("too large: constraints of 10")
    assert why.endswith("KiB, more than 64")


def test_large_labels_and_many_volumes_are_refused() -> None:
    document = manifests.pod()
    document["metadata"]["labels"] = {f"{'k' * 60}{i}": "v" for i in range(1000)}
    one = built(document)
    why = "too large: labels of 68 KiB, more than 64"
    assert (one.labels, one.scheduling.unevaluated) == ({}, (why,))
    document = manifests.pod()
    document["spec"]["volumes"] = [{"name": f"v{i}", "emptyDir": {}} for i in range(1001)]
    why = "too large: 1001 volumes, more than 1000"
    assert built(document).scheduling.unevaluated == (why,)


def test_a_namespace_has_a_share_of_terms(monkeypatch: Any) -> None:
    monkeypatch.setattr(bounded_constraints, "MOST_TERMS_OF_NAMESPACE", 3)
    builder = PodBuilder()

    def unevaluated(value: str, namespace: str = "evil") -> tuple[str, ...]:
        document = avoiding(term(value), term(f"{value}-2"))
        document["metadata"]["namespace"] = namespace
        return built(document, builder).scheduling.unevaluated

    assert unevaluated("a") == ()
    assert unevaluated("b") == ("too large: affinity terms beyond 3 of its namespace",)
    assert unevaluated("a") == ()  # equal terms count once
    assert unevaluated("b", "shop") == ()


def test_hundreds_of_large_pods_take_little_memory() -> None:
    size = 280 * 2**10
    assert size > bounded_constraints.LARGEST_CONSTRAINTS_BYTES
    builder = PodBuilder()

    def large(number: int) -> dict[str, Any]:
        values = [f"{number}-{i}-{'v' * 50}" for i in range(size // 60)]
        expression = {"key": "app", "operator": "In", "values": values}
        return avoiding({"topologyKey": HOST, "labelSelector": {"matchExpressions": [expression]}})

    built(large(0), builder)
    tracemalloc.start()
    kept = [built(large(number), builder) for number in range(20)]
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == 20
    assert used < 20 * 10 * 2**10


def test_a_long_annotation_is_cut() -> None:
    document = manifests.pod()
    document["metadata"]["annotations"] = {"desched.io/evict": "x" * 200_000}
    assert len(built(document).annotations["desched.io/evict"]) == LONGEST_ANNOTATION
