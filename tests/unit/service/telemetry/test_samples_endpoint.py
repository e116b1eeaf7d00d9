from http import HTTPStatus

import pytest

from desched.service.telemetry.samples_endpoint import (
    FRESH_SECONDS,
    NONE_TAKEN,
    SamplesEndpoint,
    samples_answers,
)
from desched.whatif.clock import VirtualClock


class Taken:
    """The samples, and how often they were asked for."""

    def __init__(self):
        self.text, self.asked = "abc", 0

    def __call__(self):
        self.asked += 1
        return self.text


@pytest.fixture
def clock():
    return VirtualClock()


def test_the_answer_is_the_text_and_costs_little_however_often_it_is_asked_for(clock):
    taken = Taken()
    ask = samples_answers(SamplesEndpoint(taken, clock.monotonic))["/load-samples"]
    answers = [ask({}) for _ in range(5)]
    assert {(each.status, each.body) for each in answers} == {(HTTPStatus.OK, b"abc")}
    assert taken.asked == 1
    taken.text = "def"
    clock.wait(FRESH_SECONDS)
    assert ask({}).body == b"def"


def test_a_replica_without_samples_says_why(clock):
    taken = Taken()
    taken.text = ""
    answer = SamplesEndpoint(taken, clock.monotonic).answer({})
    assert answer.status == HTTPStatus.NOT_FOUND
    assert NONE_TAKEN.encode() in answer.body
