"""Quantities as exact integers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.model.bounds import LARGEST_AMOUNT
from desched.model.resources import quantity


@pytest.mark.parametrize(
    ("text", "per_unit", "round_up", "value"),
    [
        ("250m", 1000, True, 250),
        ("1", 1000, True, 1000),
        ("0.1", 1000, True, 100),
        ("100n", 1000, True, 1),
        ("100n", 1000, False, 0),
        ("1.5Gi", 1, True, 3 * 2**29),
        ("128974848", 1, True, 128974848),
        ("129e6", 1, True, 129_000_000),
        ("129M", 1, True, 129_000_000),
        ("1E3", 1, True, 1000),
        ("1P", 1, True, 10**15),
        ("128974848000m", 1, True, 128974848),
        ("999Ei", 1000, True, LARGEST_AMOUNT),
        ("-1", 1, True, -1),
    ],
)
def test_a_quantity_is_read_exactly(text: str, per_unit: int, round_up: bool, value: int) -> None:  # noqa: FBT001 (a table)
    assert quantity(text, per_unit=per_unit, round_up=round_up) == value


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert abs(quantity(text)) <= LARGEST_AMOUNT


@given(st.integers(0, 10**9))
def test_millicores_round_trip(millicores: int) -> None:
    assert quantity(f"{millicores}m", per_unit=1000) == millicores
