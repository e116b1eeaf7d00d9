from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.policy.cron import cron_fields
from tests.unit.policy.cron_reading import EXPRESSIONS, day_matches


@given(EXPRESSIONS, st.dates(date(2024, 1, 1), date(2030, 1, 1)))
def test_a_day_is_named_as_by_an_independent_reading(expression, day):
    assert cron_fields(expression).on(day) == day_matches(expression, day)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("0 0 29 2 *", True),
        ("0 0 31 2 fri", False),
        ("0 0 31 2,3 *", True),
    ],
)
def test_a_day_exists_if_one_of_the_months_has_it(expression, named):
    assert cron_fields(expression).day_exists is named


def test_where_the_day_of_month_never_comes_the_day_of_the_week_is_enough():
    fields = cron_fields("0 0 31 2 fri")
    days = [date(2026, 1, 1) + timedelta(days=i) for i in range(365)]
    found = [day for day in days if fields.on(day)]
    assert {(day.month, day.isoweekday()) for day in found} == {(2, 5)}


def test_macros_stand_for_expressions():
    assert cron_fields("@Daily") == cron_fields("0 0 * * *")
    assert cron_fields(" @hourly ") == cron_fields("0 * * * *")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "has to have five fields"),
        ("@often", "has to have five fields"),
        ("0 24 * * *", 'has "24" as hour, which goes from 0 to 23'),
        ("0 0 31 4 *", "names a day that no month has"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_reason(expression, reason):
    with pytest.raises(ValueError, match=reason):
        cron_fields(expression)
