"""What volcano-scheduler.conf says about scores, and when that is not known.

The lines are of volcano-sh/volcano@ed72c7c8, below pkg/scheduler/.
"""

from typing import Any

import pytest
import yaml

from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.objects.volcano_scheduler import KEY, configuration_of
from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.policy.schedulers import VolcanoWeights
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)

HELM = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""installer/helm/chart/volcano/config/volcano-scheduler.conf."""

USUAL = dict(VolcanoWeights().arguments)


def changed(plugin: str, **fields: Any) -> VolcanoConfiguration:
    """The chart's configuration with another form of one plugin, which may be new."""
    document = yaml.safe_load(HELM)
    plugins = document["tiers"][1]["plugins"]
    found = next((each for each in plugins if each["name"] == plugin), None)
    if found is None:
        plugins.append({"name": plugin} | fields)
    else:
        found |= fields
    return configuration_of(yaml.safe_dump(document))


def with_arguments(plugin: str, **arguments: Any) -> VolcanoConfiguration:
    named = {key.replace("__", "."): value for key, value in arguments.items()}
    return changed(plugin, arguments=named)


def test_the_configuration_of_the_chart_has_the_weights_of_the_profile() -> None:
    """plugins/nodeorder/nodeorder.go:142-151, plugins/binpack/binpack.go:112-155."""
    assert configuration_of(HELM) == VolcanoConfiguration(USUAL)


def test_without_binpack_it_gives_no_points() -> None:
    """util.go:38-51: so do the compiled defaults."""
    found = configuration_of(HELM.replace("  - name: binpack\n", ""))
    packing = {argument: 0 for argument in USUAL if argument.startswith("binpack")}
    assert found.weights == USUAL | packing


def test_a_plugin_whose_node_order_is_off_gives_no_points() -> None:
    """conf/scheduler_conf.go, framework/session_plugins.go:1012-1065."""
    found = changed("nodeorder", enableNodeOrder=False)
    assert {value for key, value in found.weights.items() if not key.startswith("binpack")} == {0}
    assert not found.unclear


def test_arguments_replace_weights() -> None:
    found = with_arguments("nodeorder", leastrequested__weight=0, mostrequested__weight=3)
    assert found.weights == USUAL | {"leastrequested.weight": 0, "mostrequested.weight": 3}
    assert with_arguments("binpack", binpack__weight=10).weights == USUAL | {"binpack.weight": 10}


def test_further_resources_of_binpack_and_further_plugins_are_known_by_name() -> None:
    listed = {"binpack.resources": "nvidia.com/gpu", "binpack.resources.nvidia.com/gpu": 2}
    assert changed("binpack", arguments=listed).packs_others
    found = changed("network-topology-aware", arguments={"weight": 10})
    assert (found.further, found.unclear) == (("network-topology-aware",), "")
    assert changed("usage", enableNodeOrder=False).further == ()
    assert changed("capacity").further == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tiers: [", "cannot be read"),
        ("", "the file is no mapping"),
        ("actions: allocate", "tiers is no list"),
        ("tiers: []", "tiers is no list"),
        ("tiers: [{plugins: [predicates]}]", "a plugin is no mapping"),
        ("tiers: [{plugins: [{name: [a]}]}]", "a plugin is twice there, or has no name"),
        (HELM + "  - name: nodeorder\n", "a plugin is twice there"),
        (HELM.replace("  - name: predicates\n", ""), "predicates is off"),
        ("[" * 5_000, "cannot be read"),
        ("#" * 70_000, "more than 65536 characters"),
        ("a: &a [*a]\ntiers: *a", "cannot be read"),
    ],
)
def test_a_file_that_is_not_understood_is_unclear(text: str, why: str) -> None:
    found = configuration_of(text)
    assert why in found.unclear
    assert not found.weights


@pytest.mark.parametrize("weight", ["5", 1.5, True, None, -1, 20_000])
def test_a_weight_that_volcano_reads_in_another_way_is_unclear(weight: Any) -> None:
    """framework/arguments.go: GetInt; older versions take texts, newer ones ignore them."""
    found = with_arguments("nodeorder", tainttoleration__weight=weight)
    assert "tainttoleration.weight is no integer" in found.unclear


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"enablePredicate": False}, "predicates is off"),
        (
            {"arguments": {"predicate.TaintTolerationEnable": False}},
            "TaintTolerationEnable is False",
        ),
        ({"arguments": {"predicate.ProportionalEnable": True}}, "ProportionalEnable is True"),
        ({"arguments": ["a"]}, "arguments is no mapping"),
        ({"enablePredicate": "no"}, "enablePredicate is no boolean"),
    ],
)
def test_filters_that_differ_from_those_of_kube_scheduler_are_unclear(
    fields: dict[str, Any], why: str
) -> None:
    """plugins/predicates/predicates.go:129."""
    assert why in changed("predicates", **fields).unclear
    assert not changed("predicates", arguments={"predicate.CacheEnable": True}).unclear


PLACE = "volcano-system/volcano-scheduler-configmap"
PATH = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"


def read(reply: Reply | None) -> VolcanoConfiguration:
    with FakeApiServer() as server:
        server.answer = lambda request: reply if request.path == PATH else None
        reader = KubernetesReader(connection_to(server))
        found = reader.read_cluster((), (PLACE,)).volcano_configurations
        assert server.paths().count(PATH) == 1
        assert "configmaps" not in str(set(server.paths()) - {PATH})
    (configuration,) = found.values()
    assert found.keys() == {PLACE}
    return configuration


def test_the_config_map_is_read_by_its_name() -> None:
    assert read(Reply(body={"data": {KEY: HELM}})) == VolcanoConfiguration(USUAL)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (status(403, "no"), "the account may not get configmaps in namespace volcano-system (403)"),
        (status(404, "no"), "there is none"),
        (Reply(body={"data": None}), f"it has no {KEY}"),
        (Reply(body={"data": {"other.conf": HELM}}), f"it has no {KEY}"),
        (Reply(body={"data": 7}), "it cannot be read"),
        (Reply(body=b"<html>"), "it cannot be read"),
    ],
)
def test_a_config_map_that_cannot_be_read_is_unclear_and_the_cycle_goes_on(
    reply: Reply, why: str
) -> None:
    assert why in read(reply).unclear
