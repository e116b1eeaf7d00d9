"""Pod affinity, anti-affinity and topology spread, in the model's terms."""

from collections.abc import Iterable

from desched.adapters.kubernetes.client.api_types import scheduling
from desched.adapters.kubernetes.objects.selectors import lenient_label_selector
from desched.model.cluster import PodAffinityTerm, SpreadConstraint

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


def required_pods(affinity: scheduling.PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    """The hard terms of a pod affinity or anti-affinity.

    The API server has merged matchLabelKeys and mismatchLabelKeys into the selectors. A requirement
    with an unknown operator is left out, so an anti-affinity may keep away more pods than intended.
    """
    terms = affinity.required if affinity is not None else None
    return tuple(_term(each, 0) for each in terms or ())


def preferred_pods(
    affinity: scheduling.PodAffinity | None, anti_affinity: scheduling.PodAffinity | None
) -> tuple[PodAffinityTerm, ...]:
    """The soft terms of both; those of the anti-affinity have negative weights."""
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


def _term(term: scheduling.PodAffinityTerm, weight: int) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=term.topology_key,
        selector=lenient_label_selector(term.label_selector),
        namespaces=tuple(sorted(term.namespaces or ())),
        namespace_selector=lenient_label_selector(term.namespace_selector),
        weight=weight,
    )
