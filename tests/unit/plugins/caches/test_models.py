"""R1.2: the models of a pod, by its annotation or by what Fluid and OME make it prefer."""

from typing import Any

import pytest

from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.plugins.caches.models import CACHE_KEY, models_of
from tests.builders import node, pod, workload

OME = "models.ome.io/clusterbasemodel.llama-70b"
FLUID = "fluid.io/s-ml-imagenet"


@pytest.mark.parametrize(
    ("text", "label", "held", "name"),
    [
        ("llama-70b", "cache.desched.io/llama-70b", ["", "true", "Ready"], "llama-70b"),
        (" llama-70b = v2 ", "cache.desched.io/llama-70b", ["v2"], "llama-70b=v2"),
        (OME, OME, ["Ready"], OME),
        (f"{OME}=Ready", OME, ["Ready"], OME),
        (f"{FLUID}=true", FLUID, ["true"], FLUID),
    ],
)
def test_the_annotation_names_a_label_of_nodes(
    text: str, label: str, held: list[str], name: str
) -> None:
    """R1.2: a model that is being downloaded, or whose download failed, is not there."""
    for one, owner in (
        (pod("a", annotations={CACHE_KEY: text}), None),
        (pod("a"), workload("web", annotations={CACHE_KEY: text})),
        (pod("a", annotations={CACHE_KEY: text}), workload("web", annotations={CACHE_KEY: "x"})),
    ):
        (model,) = models_of(one, owner)
        assert model.name == name
        assert all(model.is_on(node("n", labels={label: value})) for value in held)
        for labels in ({}, {label: "Updating"}, {label: "Failed"}, {label: "false"}):
            assert not model.is_on(node("n", labels=labels))


@pytest.mark.parametrize("text", ["", "=", "a,b", "/"])
def test_what_names_no_label_is_on_no_node(text: str) -> None:
    """X4: then the pod stays."""
    (model,) = models_of(pod("a", annotations={CACHE_KEY: text}), None)
    assert not model.is_on(node("n", labels={"a": "true", "cache.desched.io/a": "true"}))


def preferring(*requirements: Requirement) -> Any:
    terms = tuple((100, NodeSelectorTerm(labels=(each,))) for each in requirements)
    return pod("a", scheduling={"preferred_node_affinity": terms})


def test_a_preference_of_fluid_or_ome_names_the_model() -> None:
    """R1.2: their webhooks write it, and the nodes carry the label only once the data is there."""
    found = models_of(
        preferring(
            Requirement(OME, Operator.IN, ("Ready",)),
            Requirement(FLUID, Operator.IN, ("true",)),
            Requirement("topology.kubernetes.io/zone", Operator.IN, ("a",)),
            Requirement("fluid.io/s-ml-other", Operator.NOT_IN, ("true",)),
        ),
        None,
    )
    assert [model.name for model in found] == [OME, FLUID]
    assert not models_of(pod("a"), None)
