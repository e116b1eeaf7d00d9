"""Label selectors and node selectors, in the model's terms."""

from collections.abc import Iterable

from msgspec import Raw

from desched.api_objects import metadata
from desched.api_objects.decoding import RawDecoder
from desched.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    go_integer,
)

_SELECTOR = RawDecoder(metadata.LabelSelector)
_OPERATORS = frozenset(Operator)
_COMPARISONS = frozenset({Operator.GREATER, Operator.LESS})


def label_selector(selector: metadata.LabelSelector) -> LabelSelector:
    """The selector; an empty one selects everything."""
    labels = sorted((selector.match_labels or {}).items())
    return LabelSelector(
        (
            *(Requirement(key, Operator.IN, (value,)) for key, value in labels),
            *_requirements(selector.match_expressions),
        )
    )


def decoded_selector(raw: Raw) -> metadata.LabelSelector | None:
    """The selector as the API server has it; None if there is none."""
    return _SELECTOR(raw)


def lenient_label_selector(selector: metadata.LabelSelector | None) -> LabelSelector | None:
    """The selector without requirements of unknown operators; it may match more than intended.

    None selects nothing.
    """
    if selector is None:
        return None
    expressions = [
        expression
        for expression in selector.match_expressions or ()
        if expression.operator in _OPERATORS
    ]
    return label_selector(metadata.LabelSelector(selector.match_labels, expressions))


def unknown_operators(part: object) -> list[str]:
    """Operators of servers newer than this code, anywhere in a part of the API's JSON."""
    if isinstance(part, metadata.SelectorRequirement):
        return [] if part.operator in _OPERATORS else [part.operator]
    if isinstance(part, metadata.Wire):
        return unknown_operators([getattr(part, name) for name in part.__struct_fields__])
    if isinstance(part, list):
        return [operator for item in part for operator in unknown_operators(item)]
    return []


def invalid_bounds(terms: Iterable[metadata.NodeSelectorTerm]) -> list[str]:
    """Comparisons with a value that is no integer; the API server does not check it."""
    return [
        f"{expression.operator} {', '.join(expression.values or ())}".strip()
        for term in terms
        for expression in term.match_expressions or ()
        if expression.operator in _COMPARISONS
        and None in map(go_integer, expression.values or ("",))
    ]


def node_selector_terms(selector: metadata.NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    """The alternatives of a node selector; without any, it selects no node."""
    return tuple(node_selector_term(term) for term in selector.node_selector_terms or ())


def node_selector_term(term: metadata.NodeSelectorTerm) -> NodeSelectorTerm:
    """One alternative of a node selector."""
    return NodeSelectorTerm(_requirements(term.match_expressions), _requirements(term.match_fields))


def _requirements(
    requirements: Iterable[metadata.SelectorRequirement] | None,
) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            requirement.key, Operator(requirement.operator), tuple(requirement.values or ())
        )
        for requirement in requirements or ()
    )
