"""Label selectors and node selectors."""
# ruff: noqa: D101  (the classes mirror the API's own, which its reference documents)

from desched.adapters.kubernetes.client.api_types.metadata import Strings, Wire


class SelectorRequirement(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: Strings = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] | None = None
