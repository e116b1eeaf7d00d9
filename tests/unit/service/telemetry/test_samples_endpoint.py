from http import HTTPStatus

from desched.service.telemetry.samples_endpoint import NONE_TAKEN, samples_answers


def test_the_answer_is_the_text_of_the_samples():
    answer = samples_answers(lambda: "abc")["/load-samples"]({})
    assert (answer.status, answer.body) == (HTTPStatus.OK, b"abc")


def test_a_replica_without_samples_says_why():
    answer = samples_answers(str)["/load-samples"]({})
    assert answer.status == HTTPStatus.NOT_FOUND
    assert NONE_TAKEN.encode() in answer.body
