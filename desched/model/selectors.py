"""Label selectors and node selector terms, with the API server's meaning of each operator."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from desched.model.names import Form, Plain

_GO_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_INT64 = range(-(2**63), 2**63)


class Operator(StrEnum):
    """How a requirement compares a label's value."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Requirement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One condition on one label (or field)."""

    key: Plain
    operator: Operator
    values: Annotated[tuple[str, ...], Form.REQUIRED] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy the condition; a missing key satisfies the negative ones."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Source: k8s.io/apimachinery/pkg/labels Requirement.Matches."""
        number = go_integer(value or "")
        bound = go_integer(self.values[0]) if len(self.values) == 1 else None
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound


def go_integer(text: str) -> int | None:
    """The number as Go's strconv.ParseInt(text, 10, 64) reads it, None where that is an error.

    Python's `int` also accepts spaces, underscores, digits of other scripts, and any size.
    """
    parts = _GO_INTEGER.fullmatch(text)
    if parts is None:
        return None
    number = int("".join(parts.groups()))
    return number if number in _INT64 else None


class LabelSelector(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """All requirements must hold; without requirements it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def one_of_labels(self) -> tuple[tuple[str, str], ...] | None:
        """Labels for an index: each matching object has one of them; None without any."""
        for requirement in self.requirements:
            if requirement.operator is Operator.IN:
                return tuple(
                    (requirement.key, value) for value in dict.fromkeys(requirement.values)
                )
        return None


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One alternative of a node affinity: labels and fields must both match.

    An empty term selects nothing, as in the scheduler.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and these labels satisfies the term."""
        if not self.labels and not self.fields:
            return False
        fields = {"metadata.name": node_name}
        return all(r.matches(labels) for r in self.labels) and all(
            r.matches(fields) for r in self.fields
        )
