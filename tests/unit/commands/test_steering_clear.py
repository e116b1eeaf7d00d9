"""`desched steering clear`: every soft taint goes, and what stays is told."""

import pytest

from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.commands.steering_clear import clear
from desched.errors import ObservationError
from desched.ports import StandingTaints, SteeringAnswer
from tests.contracts.steerer_contract import UNTIL


@pytest.fixture
def steerer(mocker):
    return mocker.create_autospec(KubernetesSteerer, instance=True)


def test_each_node_that_loses_its_taint_is_listed(steerer, capsys):
    steerer.standing.return_value = StandingTaints({"te1": UNTIL, "te2": UNTIL}, None)
    steerer.untaint.return_value = SteeringAnswer(done=True)
    clear(steerer)
    assert capsys.readouterr().out == (
        "Removed the soft taint from node te1.\nRemoved the soft taint from node te2.\n"
    )


def test_without_any_taint_that_is_listed(steerer, capsys):
    steerer.standing.return_value = StandingTaints({}, None)
    clear(steerer)
    assert capsys.readouterr().out == "No node has a soft taint of desched.\n"


def test_what_stays_is_an_error_after_all_others_are_gone(steerer, capsys):
    steerer.standing.return_value = StandingTaints({"te1": UNTIL, "te2": UNTIL}, None)
    steerer.untaint.side_effect = [
        SteeringAnswer(done=False, detail="403"),
        SteeringAnswer(done=True),
    ]
    with pytest.raises(ObservationError, match="te1: 403"):
        clear(steerer)
    assert "te2" in capsys.readouterr().out
