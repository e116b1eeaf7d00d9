"""Why a stream of lines ends."""

import errno

import pytest
from urllib3 import BaseHTTPResponse

from desched.adapters.bounded_http import APPLIED, Deadline
from desched.adapters.kubernetes.client.stream import LineStream, StreamSilent
from desched.errors import ObservationError


def test_an_end_that_answers_no_probe_is_gone_long_before_it_is_silent(mocker):
    response = mocker.create_autospec(BaseHTTPResponse, instance=True)
    response.read1.side_effect = [b"whole\nhalf", TimeoutError(errno.ETIMEDOUT, "timed out")]
    lines = iter(LineStream(response, 90.0))
    assert next(lines) == b"whole"
    with pytest.raises(ObservationError, match="does not answer") as caught:
        next(lines)
    assert not isinstance(caught.value, StreamSilent)


def test_a_stream_that_has_begun_may_be_silent_for_longer_than_its_request_may_take(mocker):
    response = mocker.create_autospec(BaseHTTPResponse, instance=True)
    left = []

    def read1(*_, **__):
        applied = APPLIED.get()
        assert applied is not None
        left.append(applied.left_seconds)
        return b""

    response.read1.side_effect = read1
    with Deadline(30.0).applied():
        assert list(LineStream(response, 90.0)) == []
    assert 80 < left[0] <= 90
