"""Progress with the time that is left, for people who wait at a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from desched.ports import Clock

PATIENT_SECONDS = 1.0
"""What takes less time shows no progress."""


LONG_SECONDS = 4.0
"""Who waits longer for an answer wants to know for what."""


@contextmanager
def waiting_for(what: str, stream: TextIO, after_seconds: float = LONG_SECONDS) -> Iterator[None]:
    """Say once what is waited for, if that takes longer than people expect."""

    def tell() -> None:
        stream.write(f"desched: Waiting for {what}.\n")
        stream.flush()

    timer = Timer(after_seconds, tell)
    timer.daemon = True  # it must not keep the process alive
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ProgressLine:
    """One line on a terminal that goes away at the end; nothing anywhere else.

    Call it with the share that is done.
    """

    def __init__(self, what: str, stream: TextIO, clock: Clock) -> None:
        self._what, self._stream, self._clock = what, stream, clock
        self._began = clock.monotonic()
        self._shown: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def __call__(self, share: float) -> None:
        """Show that this share is done."""
        if self._shown is None:
            waited = self._clock.monotonic() - self._began
            if waited < PATIENT_SECONDS or not self._stream.isatty():
                return
            self._shown = Progress(
                TextColumn(self._what),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Console(file=self._stream),
                transient=True,
            )
            self._shown.add_task(self._what, total=1.0)
            self._shown.start()
        self._shown.update(self._shown.task_ids[0], completed=share)
