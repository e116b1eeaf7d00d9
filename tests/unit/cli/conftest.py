from functools import partial

import pytest

from desched.bootstrap.runs import Ending
from desched.cli.command_table import SUMMARIES
from desched.cli.lazy_loading import load_to_run


@pytest.fixture
def run(mocker):
    """What the command line starts, without any cluster."""
    return mocker.patch("desched.bootstrap.runs.run", autospec=True, return_value=Ending())


@pytest.fixture
def command(mocker):
    """What commands run, without any cluster: gets the full name and the invocation."""
    started = mocker.Mock(return_value=None)
    for name in SUMMARIES:
        mocker.patch.object(load_to_run(name), "run", partial(started, name))
    return started
