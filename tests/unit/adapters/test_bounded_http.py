"""Attempts and bodies by a clock of the tests; both clients are tested over real HTTP."""

from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from urllib3 import HTTPResponse

from desched.adapters import bounded_http
from desched.adapters.bounded_http import Deadline, HttpBounds, _TimelyReader
from desched.errors import ObservationError, ObservationSource

PAUSES_SECONDS = (1.0, 2.0)


class Clock:
    """Advances by what is waited and by what each attempt takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: float | None) -> None:
        self.seconds = 100.0
        self.stopping_at = 10_000.0
        self.attempts: list[float] = []
        self.took_seconds = 0.0
        self._outcomes = list(outcomes)
        monkeypatch.setattr(bounded_http, "monotonic", lambda: self.seconds)

    def wait(self, seconds: float) -> bool:
        self.seconds += seconds
        return self.seconds >= self.stopping_at

    def attempt(self, _: Deadline) -> float | None:
        """The outcome of an attempt is here how long to wait after it, None if it is final."""
        self.attempts.append(self.seconds - 100.0)
        self.seconds += self.took_seconds
        return self._outcomes.pop(0)

    @property
    def bounds(self) -> HttpBounds:
        return HttpBounds(
            source=ObservationSource.CLUSTER,
            server="the server",
            pauses_seconds=PAUSES_SECONDS,
            longest_body_bytes=2,
            when_too_large="shrink it",
            wait=self.wait,
        )

    def run(self, deadline_seconds: float = 30.0) -> float | None:
        return self.bounds.repeated(self.attempt, lambda outcome: outcome, deadline_seconds)

    def response(self, *chunks: bytes, seconds_each: float = 4.0) -> Any:
        """A response over a kept-alive connection, each chunk of which takes some time."""
        left = [*chunks, b""]

        def read1(*_: object, **__: object) -> bytes:
            self.seconds += seconds_each
            return left.pop(0)

        response = create_autospec(HTTPResponse, instance=True)
        response.connection = Mock()
        response.read1.side_effect = read1
        return response


def test_a_final_outcome_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.0, None)

    assert clock.run() is None
    assert clock.attempts == [0.0, 1.0]


def test_after_the_last_pause_the_last_outcome_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.0, 5.0, 7.0)

    assert clock.run() == 7.0
    assert clock.attempts == [0.0, 1.0, 6.0]


@pytest.mark.parametrize(("took_seconds", "attempts"), [(28.9, 2), (29.0, 1), (30.0, 1), (90.0, 1)])
def test_no_attempt_begins_at_or_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch, took_seconds: float, attempts: int
) -> None:
    clock = Clock(monkeypatch, 0.0, 0.0, 0.0)
    clock.took_seconds = took_seconds

    assert clock.run() == 0.0
    assert len(clock.attempts) == attempts


def test_a_pause_that_would_reach_the_deadline_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch, 30.0)

    assert clock.run() == 30.0
    assert clock.seconds == 100.0


@pytest.mark.parametrize(("stopping_at", "attempts"), [(100.0, []), (101.0, [0.0])])
def test_stopping_ends_the_attempts_before_the_first_and_in_a_pause(
    monkeypatch: pytest.MonkeyPatch, stopping_at: float, attempts: list[float]
) -> None:
    clock = Clock(monkeypatch, 0.0, None)
    clock.stopping_at = stopping_at

    with pytest.raises(ObservationError, match="the server was given up: desched is stopping"):
        clock.run()
    assert clock.attempts == attempts


def test_a_timeout_is_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    deadline = Deadline(10.0)
    clock.seconds += 4.0
    assert (deadline.left_seconds, deadline.timeout.total) == (6.0, 6.0)
    clock.seconds += 90.0
    assert deadline.timeout.total == 0.001


def test_a_deadline_that_passes_while_it_is_looked_at_ends_the_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([100.0, 100.9, *[101.1] * 9])
    monkeypatch.setattr(bounded_http, "monotonic", lambda: next(times))
    sock = Mock()
    with Deadline(1.0).applied():
        _TimelyReader(Mock(), sock).readinto(bytearray(1))
    sock.settimeout.assert_called_once_with(pytest.approx(0.1))


@pytest.mark.parametrize("seconds", [4.0, 8.0, 7.9])
def test_a_body_ends_with_its_deadline(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock = Clock(monkeypatch)
    response = clock.response(b"a", b"b")

    with pytest.raises(TimeoutError):
        clock.bounds.read_body(response, Deadline(seconds))
    assert response.read1.call_count == -(-seconds // 4)
    response.close.assert_called_once_with()


def test_a_body_beyond_its_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    response = clock.response(b"ab", b"c")

    with pytest.raises(ObservationError, match="larger than 0 MiB; shrink it"):
        clock.bounds.read_body(response, Deadline(30.0))
    response.close.assert_called_once_with()
