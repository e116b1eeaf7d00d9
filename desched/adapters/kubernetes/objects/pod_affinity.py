"""Pod affinity, anti-affinity and topology spread, in the model's terms."""

from collections.abc import Iterable

from desched.adapters.kubernetes.client.api_types import scheduling
from desched.api_objects.selectors import lenient_label_selector
from desched.model.cluster import PodAffinityTerm, SpreadConstraint

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


def required_pods(affinity: scheduling.PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    """The hard terms of a pod affinity or anti-affinity.

    The API server has merged matchLabelKeys and mismatchLabelKeys into the selectors. A requirement
    with an unknown operator is left out, so an anti-affinity may keep away more pods than intended.
    """
    terms = affinity.required if affinity is not None else None
    return tuple(_term(term, 0) for term in terms or ())


def preferred_pods(
    affinity: scheduling.PodAffinity | None, anti_affinity: scheduling.PodAffinity | None
) -> tuple[PodAffinityTerm, ...]:
    """The soft terms of both; those of the anti-affinity have negative weights."""
    near = affinity.preferred if affinity is not None else None
    far = anti_affinity.preferred if anti_affinity is not None else None
    return (
        *(_term(term.pod_affinity_term, term.weight) for term in near or ()),
        *(_term(term.pod_affinity_term, -term.weight) for term in far or ()),
    )


def spread_constraints(
    constraints: Iterable[scheduling.TopologySpreadConstraint],
) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints whose kind is known."""
    return tuple(
        SpreadConstraint(
            topology_key=constraint.topology_key,
            max_skew=constraint.max_skew,
            hard=constraint.when_unsatisfiable == HARD,
            selector=lenient_label_selector(constraint.label_selector),
            min_domains=constraint.min_domains or 1,
            honors_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
            honors_taints=constraint.node_taints_policy == "Honor",
            match_label_keys=tuple(constraint.match_label_keys or ()),
        )
        for constraint in constraints
        if constraint.when_unsatisfiable in {HARD, SOFT}
    )


def _term(term: scheduling.PodAffinityTerm, weight: int) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=term.topology_key,
        selector=lenient_label_selector(term.label_selector),
        namespaces=tuple(sorted(term.namespaces or ())),
        namespace_selector=lenient_label_selector(term.namespace_selector),
        weight=weight,
    )
