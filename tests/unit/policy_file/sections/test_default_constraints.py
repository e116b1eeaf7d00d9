"""What a policy says about the cluster's scheduler."""

import pytest

from desched.model.cluster import SpreadConstraint
from tests.unit.policy_file.published import published, refusal, resolved


def spread_by(**section: object) -> tuple[SpreadConstraint, ...] | None:
    return resolved(load_aware={"scheduler": section}).scheduler.default_spread


def constraint(**fields: object) -> dict[str, object]:
    strict = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return strict | fields


def test_default_constraints_are_written_as_in_the_schedulers_configuration() -> None:
    soft = constraint(maxSkew=5, topologyKey="host", whenUnsatisfiable="ScheduleAnyway")
    assert spread_by(defaultConstraints=[constraint(), soft]) == (
        SpreadConstraint("zone", 1, hard=True, selector=None),
        SpreadConstraint("host", 5, hard=False, selector=None),
    )


def test_no_constraints_are_not_those_of_the_system() -> None:
    assert spread_by() is None
    assert spread_by(defaultConstraints=[]) == ()


@pytest.mark.parametrize("fields", [{"maxSkew": 0}, {"whenUnsatisfiable": "Never"}])
def test_a_constraint_that_the_scheduler_refuses_is_refused(fields: dict[str, object]) -> None:
    document = published(load_aware={"scheduler": {"defaultConstraints": [constraint(**fields)]}})
    assert "defaultConstraints" in refusal(document)
