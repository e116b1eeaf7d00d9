"""Comparisons of labels are those of k8s.io/apimachinery/pkg/labels, which reads numbers as Go."""

import pytest

from desched.model.selectors import Operator, Requirement, go_integer

LARGEST, SMALLEST = str(2**63 - 1), str(-(2**63))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        (LARGEST, 2**63 - 1),
        (SMALLEST, -(2**63)),
    ],
)
def test_go_reads_signs_and_leading_zeros(text: str, number: int) -> None:
    assert go_integer(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "-", "--1", "+-1", "1.0", "1e3", "0x10", "abc"),
        *("1_000", " 1", "1 ", "1\n", "\t1"),
        *("\u0663", "\uff11", "\u00b2"),  # digits of other scripts, and a superscript
        *(str(2**63), str(-(2**63) - 1), "9" * 5000),
    ],
)
def test_go_reads_no_number_where_python_may(text: str) -> None:
    assert go_integer(text) is None


@pytest.mark.parametrize("operator", [Operator.GREATER, Operator.LESS])
@pytest.mark.parametrize(
    ("label", "bounds"),
    [
        ("1_000", ("5",)),
        ("\u0665", ("5",)),
        (" 9", ("5",)),
        (str(2**63), ("5",)),
        ("5", ("1_0",)),
        ("5", (str(2**63),)),
        ("5", (str(-(2**63) - 1),)),
        ("5", ()),
        ("5", ("4", "6")),
        ("5", ("5",)),
        (None, ("5",)),
    ],
)
def test_a_comparison_of_what_is_no_number_matches_nothing(
    label: str | None, bounds: tuple[str, ...], operator: Operator
) -> None:
    labels = {} if label is None else {"size": label}
    assert not Requirement("size", operator, bounds).matches(labels)


def test_numbers_are_compared_as_numbers() -> None:
    assert Requirement("size", Operator.GREATER, ("-2",)).matches({"size": "+0010"})
    assert Requirement("size", Operator.LESS, (LARGEST,)).matches({"size": SMALLEST})
