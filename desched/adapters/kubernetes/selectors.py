"""Label selectors and node selectors in the model's words."""

from collections.abc import Iterable

from desched.adapters.kubernetes import wire
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement


def label_selector(selector: wire.LabelSelector) -> LabelSelector:
    """The selector; an empty one selects everything.

    Raises:
        ValueError: an operator is not known.
    """
    labels = sorted((selector.match_labels or {}).items())
    return LabelSelector(
        (
            *(Requirement(key, Operator.IN, (value,)) for key, value in labels),
            *_requirements(selector.match_expressions),
        )
    )


def node_selector_terms(selector: wire.NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    """The alternatives of a node selector; without any, it selects no node.

    Raises:
        ValueError: an operator is not known.
    """
    return tuple(
        NodeSelectorTerm(_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in selector.node_selector_terms or ()
    )


def _requirements(
    requirements: Iterable[wire.SelectorRequirement] | None,
) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(each.key, Operator(each.operator), tuple(each.values or ()))
        for each in requirements or ()
    )
