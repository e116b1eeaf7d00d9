"""What people are told who wait."""

import io
from threading import Event

from desched.views.progress import waiting_for


class Heard(io.StringIO):
    """A stream that tells when something is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.event = Event()

    def flush(self) -> None:
        self.event.set()


def test_who_waits_long_is_told_once_for_what() -> None:
    stream = Heard()
    with waiting_for("Prometheus", stream, after_seconds=0.0):
        assert stream.event.wait(30)
    assert stream.getvalue() == "desched: Waiting for Prometheus.\n"


def test_what_is_quick_says_nothing() -> None:
    stream = Heard()
    with waiting_for("Prometheus", stream, after_seconds=3600.0):
        pass
    assert not stream.event.is_set()
    assert stream.getvalue() == ""
