"""Servers that the harness starts and that never outlive it."""

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from tests.controlplane.waiting import wait_for

T = TypeVar("T")

LOG_TAIL_CHARACTERS = 3000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerDiedError(Exception):
    """Carries the end of the server's log, which is where the reason stands."""


class Server:
    """A child in a process group of its own that logs to a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        directory: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`variables` are put into the environment."""
        self.name = name
        self.log = directory / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, **(variables or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  one system call, no lock
            )
        atexit.register(self.stop)

    @property
    def pid(self) -> int:
        """Under which /proc knows it."""
        return self._process.pid

    def wait_until(self, description: str, predicate: Callable[[], T], timeout: float = 30.0) -> T:
        """Waits for the server to do something, and gives up at once when it has died."""

        def predicate_while_alive() -> T:
            if self._process.poll() is not None:
                raise ServerDiedError(
                    f"{self.name} ended with {self._process.returncode} before {description}\n"
                    f"{self.log_tail()}"
                )
            return predicate()

        return wait_for(description, predicate_while_alive, timeout, self.log_tail)

    def log_tail(self) -> str:
        """Quotes the log's end for error messages."""
        return f"{self.log}: …{self.log.read_text(errors='replace')[-LOG_TAIL_CHARACTERS:]}"

    def stop(self, grace: float = 0.0) -> None:
        """Ends the whole process group, at once unless there is state that is worth flushing."""
        atexit.unregister(self.stop)
        if self._process.poll() is None and grace:
            self.signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the whole process group."""
        os.killpg(self._process.pid, number)


def _die_with_parent() -> None:
    """Covers the end that no clean-up survives: a test run killed by SIGKILL.

    Linux ties this to the thread that starts the server, which hence should be the main thread.
    """
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Holds all ports until the last is known, so that no two are the same."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
