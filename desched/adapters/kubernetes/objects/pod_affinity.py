"""How a pod wants to lie to other pods: near to them, away from them, spread evenly."""

from collections.abc import Iterable

from desched.adapters.kubernetes.client.api_types import metadata, scheduling
from desched.adapters.kubernetes.objects.selectors import lenient_label_selector, unknown_operators
from desched.model.cluster import PodAffinityTerm, SpreadConstraint

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


def required_pods(affinity: scheduling.PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    """The hard terms of a pod affinity or anti-affinity.

    The API server has merged matchLabelKeys and mismatchLabelKeys into the selectors. A requirement
    with an unknown operator is left out, so that an anti-affinity keeps away rather too many pods.
    """
    terms = affinity.required if affinity is not None else None
    return tuple(_term(each, 0) for each in terms or ())


def preferred_pods(
    affinity: scheduling.PodAffinity | None, anti_affinity: scheduling.PodAffinity | None
) -> tuple[PodAffinityTerm, ...]:
    """The soft terms of both; those of the anti-affinity weigh negative."""
    near = affinity.preferred if affinity is not None else None
    far = anti_affinity.preferred if anti_affinity is not None else None
    return (
        *(_term(each.pod_affinity_term, each.weight) for each in near or ()),
        *(_term(each.pod_affinity_term, -each.weight) for each in far or ()),
    )


def spread_constraints(
    constraints: Iterable[scheduling.TopologySpreadConstraint],
) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints whose kind is known."""
    return tuple(
        SpreadConstraint(
            topology_key=each.topology_key,
            max_skew=each.max_skew,
            hard=each.when_unsatisfiable == HARD,
            selector=lenient_label_selector(each.label_selector),
            min_domains=each.min_domains or 1,
            honors_affinity=(each.node_affinity_policy or "Honor") == "Honor",
            honors_taints=each.node_taints_policy == "Honor",
            match_label_keys=tuple(each.match_label_keys or ()),
        )
        for each in constraints
        if each.when_unsatisfiable in {HARD, SOFT}
    )


def unknown_in_pod_affinity(affinity: scheduling.PodAffinity | None) -> list[str]:
    """Unknown operators in any term."""
    if affinity is None:
        return []
    terms = [
        *(affinity.required or ()),
        *(each.pod_affinity_term for each in affinity.preferred or ()),
    ]
    selectors = [each for term in terms for each in (term.label_selector, term.namespace_selector)]
    return [name for selector in selectors for name in _unknown(selector)]


def unknown_in_spread(constraints: Iterable[scheduling.TopologySpreadConstraint]) -> list[str]:
    """Unknown kinds and operators."""
    found = []
    for each in constraints:
        if each.when_unsatisfiable not in {HARD, SOFT}:
            found.append(each.when_unsatisfiable)
        found += _unknown(each.label_selector)
    return found


def _term(term: scheduling.PodAffinityTerm, weight: int) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=term.topology_key,
        selector=lenient_label_selector(term.label_selector),
        namespaces=tuple(sorted(term.namespaces or ())),
        namespace_selector=lenient_label_selector(term.namespace_selector),
        weight=weight,
    )


def _unknown(selector: metadata.LabelSelector | None) -> list[str]:
    return unknown_operators(selector.match_expressions) if selector is not None else []
