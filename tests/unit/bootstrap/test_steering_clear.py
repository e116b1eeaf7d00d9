"""`desched steering clear`: every soft taint goes, and what stays is told."""

import io

import pytest

from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.bootstrap.commands import clear
from desched.errors import ObservationError
from desched.ports import StandingTaints, SteeringAnswer
from tests.contracts.steerer_contract import UNTIL


@pytest.fixture
def steerer(mocker):
    return mocker.create_autospec(KubernetesSteerer, instance=True)


def test_each_node_that_loses_its_taint_is_listed(steerer):
    steerer.standing.return_value = StandingTaints({"te1": UNTIL, "te2": UNTIL}, None)
    steerer.untaint.return_value = SteeringAnswer(done=True)
    told = io.StringIO()
    clear(steerer, told)
    assert told.getvalue() == (
        "Removed the soft taint from node te1.\nRemoved the soft taint from node te2.\n"
    )


def test_without_any_taint_that_is_listed(steerer):
    steerer.standing.return_value = StandingTaints({}, None)
    told = io.StringIO()
    clear(steerer, told)
    assert told.getvalue() == "No node has a soft taint of desched.\n"


def test_what_stays_is_an_error_after_all_others_are_gone(steerer):
    steerer.standing.return_value = StandingTaints({"te1": UNTIL, "te2": UNTIL}, None)
    steerer.untaint.side_effect = [
        SteeringAnswer(done=False, detail="403"),
        SteeringAnswer(done=True),
    ]
    told = io.StringIO()
    with pytest.raises(ObservationError, match="te1: 403"):
        clear(steerer, told)
    assert "te2" in told.getvalue()
