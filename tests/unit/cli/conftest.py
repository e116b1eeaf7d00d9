import pytest

from desched.bootstrap.runs import Ending


@pytest.fixture
def run(mocker):
    """What the command line starts, without any cluster."""
    return mocker.patch("desched.bootstrap.runs.run", autospec=True, return_value=Ending())


@pytest.fixture
def command(mocker):
    """What a command for people starts, without any cluster."""
    return mocker.patch("desched.bootstrap.commands.run_command", autospec=True)
