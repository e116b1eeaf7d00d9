from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.policy.schedulers import (
    VolcanoWeights,
)
from tests.unit.policy_file.published import resolved


def others(**named):
    return {"load_aware": {"scheduler": {"others": named}}}


PLACE = "volcano-system/volcano-scheduler-configmap"
WEIGHTS = dict(VolcanoWeights().arguments)


def by_config_map(found=None, **keys):
    """Volcano as in the policy and in its configuration."""
    named = {"volcano": {"profile": "Volcano", "configMap": PLACE, **keys}}
    rules = resolved(**others(**named)).scheduler
    assert rules.volcano_configurations == (PLACE,)
    return rules.by({} if found is None else {PLACE: found})


def test_a_scheduler_has_the_weights_of_its_configuration():
    stated = VolcanoConfiguration(WEIGHTS | {"binpack.weight": 0, "tainttoleration.weight": 7})
    found = by_config_map(stated).known("volcano")
    assert found.volcano == VolcanoWeights(binpack=0, taint_toleration=7)
    assert found.differing == ""


def test_what_the_policy_writes_counts_before_it_and_the_difference_is_named():
    stated = VolcanoConfiguration(WEIGHTS | {"binpack.weight": 0, "nodeaffinity.weight": 9})
    arguments = {"binpack.weight": 5, "nodeaffinity.weight": 9}
    found = by_config_map(stated, arguments=arguments).known("volcano")
    assert found.volcano == VolcanoWeights(binpack=5, node_affinity=9)
    assert found.differing == f"binpack.weight is 5 in the policy and 0 in ConfigMap {PLACE}"


def test_nothing_is_known_of_a_scheduler_whose_configuration_is_not_clear():
    unreadable = VolcanoConfiguration(unclear="it is no YAML")
    for found, why in (None, "it was not read"), (unreadable, "it is no YAML"):
        rules = by_config_map(found, arguments={"binpack.weight": 5})
        assert rules.known("volcano") is None
        assert rules.unclear("volcano") == f"ConfigMap {PLACE}: {why}"
    assert rules.unclear("kai-scheduler") == ""


def test_plugins_that_may_give_points_require_a_number_of_them():
    stated = VolcanoConfiguration(WEIGHTS, further=("usage",))
    assert "it has usage, and the policy has no furtherPoints" in by_config_map(stated).unclear(
        "volcano"
    )
    assert by_config_map(stated, furtherPoints=500).known("volcano").further_points == 500


def test_a_plugin_that_the_policy_names_has_to_be_in_the_configuration():
    """R2.4: without it, Volcano keeps no gang in a HyperNode."""
    keys = {"networkTopologyAware": True, "furtherPoints": 100}
    without = by_config_map(VolcanoConfiguration(WEIGHTS), **keys).known("volcano")
    assert not without.network_topology_aware
    assert "the plugin network-topology-aware is not in" in without.differing
    further = VolcanoConfiguration(WEIGHTS, further=("network-topology-aware", "usage"))
    assert "no furtherPoints" in by_config_map(further, networkTopologyAware=True).unclear(
        "volcano"
    )
    stated = VolcanoConfiguration(WEIGHTS, further=("network-topology-aware",))
    assert by_config_map(stated, **keys).known("volcano").network_topology_aware
