"""Placement domains: the known labels, others in their place, or none."""

from desched.network.placement_domains import KNOWN_DOMAINS, DomainMode, PlacementDomains
from desched.network.plugin import domains_of
from tests.unit.policy_file.published import published, refusal, resolved


def domains(**section: object) -> PlacementDomains:
    return domains_of(resolved(load_aware={"placementDomains": section}))


def test_the_known_domains_are_required_by_default() -> None:
    assert domains_of(resolved()) == KNOWN_DOMAINS == domains() == domains(mode="Require")


def test_a_list_replaces_that_of_the_known_ones() -> None:
    found = domains(groups=["example.com/rack"], levels=[["a"], ["b", "c"]], equivalence=[])
    assert found.groups == ("example.com/rack",)
    assert found.rungs == (("a",), ("b", "c"))
    assert found.equivalence == ()
    assert found.accelerator_groups == KNOWN_DOMAINS.accelerator_groups
    assert {"example.com/rack", "a", "b", "c"} < found.keys


def test_single_levels_and_groups_have_modes_of_their_own() -> None:
    """R0.3: by one of the labels of a level; what is ignored is no domain."""
    group, clique = "cloud.google.com/gke-placement-group", "nvidia.com/gpu.clique"
    rack, same = "topology.gke.io/rack", "topology.k8s.aws/network-node-layer-2"
    found = domains(modes={group: "Ignore", clique: "Prefer", rack: "Prefer"})
    assert group not in found.groups
    assert clique in found.accelerator_groups
    assert found.mode_of(clique) is found.mode_of(same) is DomainMode.PREFER
    assert found.mode_of("topology.kubernetes.io/zone") is DomainMode.REQUIRE
    only = domains(mode="Ignore", modes={group: "Require"})
    assert (only.groups, only.rungs, only.equivalence) == ((group,), (), ())
    document = published(load_aware={"placementDomains": {"modes": {group: "Near"}}})
    assert "Near" in refusal(document)
