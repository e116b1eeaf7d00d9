"""The samples of a running service; `desched explain --service` has the tests of the rest."""

from http import HTTPStatus

import pytest

from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.running_service import LONGEST_SAMPLES_BYTES, RunningService


@pytest.mark.parametrize(
    ("status", "body", "samples"),
    [
        (HTTPStatus.OK, b"eJwr", "eJwr"),
        (HTTPStatus.NOT_FOUND, b"there are /, /status\n", ""),
        (HTTPStatus.MOVED_PERMANENTLY, b"", ""),
        (HTTPStatus.OK, b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (HTTPStatus.OK, b"x" * (LONGEST_SAMPLES_BYTES + 1), ""),
    ],
)
def test_what_is_no_text_of_samples_is_none(status, body, samples):
    asked = []

    def ask(path, query):
        asked.append((path, query))
        return Answer(status, body)

    assert RunningService("the service", ask).load_samples() == samples
    assert asked == [("/load-samples", {})]
