"""The loop over attempts, with a clock of its own; bodies are read in the tests of both clients."""

import pytest

from desched.adapters import bounded_http
from desched.adapters.bounded_http import Deadline, HttpBounds
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

    def run(self, deadline_seconds: float = 30.0) -> float | None:
        bounds = HttpBounds(
            source=ObservationSource.CLUSTER,
            server="the server",
            pauses_seconds=PAUSES_SECONDS,
            longest_body_bytes=1,
            when_too_large="",
            wait=self.wait,
        )
        return bounds.repeated(self.attempt, lambda outcome: outcome, deadline_seconds)


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
