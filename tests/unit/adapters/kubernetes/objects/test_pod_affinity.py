"""Affinity to pods and topology spread, as the scheduler reads them."""

from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import pods
from desched.adapters.kubernetes.objects.scheduling_class import scheduling_class
from desched.model.cluster import PodAffinityTerm, SchedulingClass, SpreadConstraint
from desched.model.selectors import LabelSelector, Operator, Requirement

HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
IS_WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def scheduling(**spec: Any) -> SchedulingClass:
    document = {"containers": [{"name": "a"}], **spec}
    body = msgspec.json.encode(document)
    return scheduling_class(msgspec.json.decode(body, type=pods.PodSpec), pods.PodStatus())


def near(term: dict[str, Any]) -> PodAffinityTerm:
    affinity = {"podAffinity": {REQUIRED: [{"topologyKey": HOST} | term]}}
    (found,) = scheduling(affinity=affinity).pod_affinity
    return found


def test_required_terms_of_both_directions_are_kept_apart() -> None:
    found = scheduling(
        affinity={
            "podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": WEB}]},
            "podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": WEB}]},
        }
    )

    assert found.pod_affinity == (PodAffinityTerm("zone", IS_WEB),)
    assert found.pod_anti_affinity == (PodAffinityTerm(HOST, IS_WEB),)
    assert found.preferred_pod_affinity == ()


def test_preferred_anti_affinity_weighs_negative() -> None:
    term = {"topologyKey": HOST, "labelSelector": WEB}
    found = scheduling(
        affinity={
            "podAffinity": {PREFERRED: [{"weight": 7, "podAffinityTerm": term}]},
            "podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]},
        }
    )

    assert found.preferred_pod_affinity == (
        PodAffinityTerm(HOST, IS_WEB, weight=7),
        PodAffinityTerm(HOST, IS_WEB, weight=-100),
    )
    assert (found.pod_affinity, found.pod_anti_affinity) == ((), ())


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, PodAffinityTerm(HOST, None)),  # selects no pod
        ({"labelSelector": {}}, PodAffinityTerm(HOST, LabelSelector())),  # selects every pod
        (
            {"labelSelector": {}, "namespaces": ["b", "a"]},
            PodAffinityTerm(HOST, LabelSelector(), ("a", "b")),
        ),
        (
            {"labelSelector": {}, "namespaceSelector": {}},  # every namespace
            PodAffinityTerm(HOST, LabelSelector(), (), LabelSelector()),
        ),
        (
            {"labelSelector": {}, "namespaces": None, "namespaceSelector": WEB},
            PodAffinityTerm(HOST, LabelSelector(), (), IS_WEB),
        ),
    ],
)
def test_nothing_selects_nothing_and_empty_selects_everything(
    term: dict[str, Any], expected: PodAffinityTerm
) -> None:
    assert near(term) == expected


def test_keys_that_the_server_has_merged_into_the_selector_are_in_it() -> None:
    merged = {"key": "pod-template-hash", "operator": "In", "values": ["5d4"]}
    term = {
        "labelSelector": WEB | {"matchExpressions": [merged]},
        "matchLabelKeys": ["pod-template-hash"],
    }

    assert near(term).selector == LabelSelector(
        (*IS_WEB.requirements, Requirement("pod-template-hash", Operator.IN, ("5d4",)))
    )


def test_an_anti_affinity_that_is_not_understood_keeps_away_rather_too_many() -> None:
    newer = {"matchExpressions": [{"key": "tier", "operator": "Like", "values": ["x"]}]}
    term = {"topologyKey": HOST, "labelSelector": WEB | newer}
    found = scheduling(affinity={"podAntiAffinity": {REQUIRED: [term]}})

    assert found.pod_anti_affinity == (PodAffinityTerm(HOST, IS_WEB),)
    assert "pod anti-affinity Like" in found.unevaluated


def spread(**constraint: Any) -> SpreadConstraint:
    document = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    (found,) = scheduling(topologySpreadConstraints=[document | constraint]).spread
    return found


def test_a_spread_constraint_gets_the_apis_defaults() -> None:
    assert spread() == SpreadConstraint(
        "zone",
        2,
        hard=True,
        selector=None,
        min_domains=1,
        honors_affinity=True,
        honors_taints=False,
    )


def test_a_spread_constraint_comes_out_whole() -> None:
    found = spread(
        whenUnsatisfiable="ScheduleAnyway",
        labelSelector=WEB,
        minDomains=3,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        matchLabelKeys=["pod-template-hash"],
    )

    assert found == SpreadConstraint(
        "zone",
        2,
        hard=False,
        selector=IS_WEB,
        min_domains=3,
        honors_affinity=False,
        honors_taints=True,
        match_label_keys=("pod-template-hash",),
    )


def test_the_policies_may_say_their_defaults() -> None:
    found = spread(nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore", minDomains=None)

    assert (found.honors_affinity, found.honors_taints, found.min_domains) == (True, False, 1)
