"""Placement domains: the known labels, others in their place, or none."""

import pytest

from desched.policy.placement_domains import KNOWN_DOMAINS, DomainMode, PlacementDomains
from tests.unit.policy_file.published import published, refusal, resolved, warnings


def domains(**section: object) -> PlacementDomains:
    return resolved(load_aware={"placementDomains": section}).domains


def test_the_known_domains_are_required_by_default() -> None:
    assert resolved().domains == KNOWN_DOMAINS == domains() == domains(mode="Require")


def test_none_is_required_if_they_are_ignored() -> None:
    ignored = domains(mode="Ignore", groups=["example.com/rack"])
    assert ignored == PlacementDomains()
    assert not ignored.keys


def test_a_list_replaces_that_of_the_known_ones() -> None:
    found = domains(groups=["example.com/rack"], levels=[["a"], ["b", "c"]], equivalence=[])
    assert found.groups == ("example.com/rack",)
    assert found.rungs == (("a",), ("b", "c"))
    assert found.equivalence == ()
    assert found.accelerator_groups == KNOWN_DOMAINS.accelerator_groups
    assert {"example.com/rack", "a", "b", "c"} < found.keys


@pytest.mark.parametrize("key", ["", "a/b/c", "-rack", "example.com/"])
def test_what_is_no_key_of_a_label_is_refused(key: str) -> None:
    document = published(load_aware={"placementDomains": {"groups": [key]}})
    assert "allowed is the key of a label" in refusal(document)


def test_the_scope_of_balance_is_the_key_of_a_label() -> None:
    """S0.5: none by default."""
    assert resolved().balance_scope == ""
    assert resolved(load_aware={"balanceScope": "example.com/rack"}).balance_scope == (
        "example.com/rack"
    )
    document = published(load_aware={"balanceScope": "a rack"})
    assert "allowed is the key of a label" in refusal(document)


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


def test_a_level_has_a_label() -> None:
    document = published(load_aware={"placementDomains": {"levels": [["a"], []]}})
    assert "levels[1]: found an empty list, allowed is a list of at least one" in refusal(document)


@pytest.mark.parametrize("tier", ["one", "01", "1.5"])
def test_a_tier_of_hyper_nodes_is_a_number(tier: str) -> None:
    key = f"topology.volcano.sh/tier-{tier}"
    for load_aware in ({"balanceScope": key}, {"placementDomains": {"modes": {key: "Prefer"}}}):
        assert "names no tier of HyperNodes" in refusal(published(load_aware=load_aware))


def test_the_mode_of_a_label_that_nothing_uses_is_a_warning() -> None:
    """Only Topologies may have it; the modes of what is ignored are no mistake."""

    def warned(mode: str = "Prefer", **section: object) -> str:
        modes = {"topology.kubernetes.io/zones": mode, "topology.volcano.sh/tier-1": mode}
        return warnings(load_aware={"placementDomains": {"modes": modes, **section}})

    assert 'KAI; did you mean "topology.kubernetes.io/zone"?' in warned()
    assert "tier-1" not in warned()
    assert "of no level" not in warned("Ignore", groups=["topology.kubernetes.io/zones"])
