"""Servers that the harness starts and that never outlive it."""

import atexit
import ctypes
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Protocol, TypeVar

from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for

T = TypeVar("T")

LOG_TAIL_CHARACTERS = 3000
RESERVED_PORTS = range(20_000, 32_000)
PORTS_OF_A_WORKER = 1_000
GO = {"GOGC": "300", "GOMAXPROCS": "1"}
"""For programs in Go that run beside many others: more memory for less CPU, and one CPU at a time.

On more of them Go's scheduler looks for work and wakes threads that find none.
"""

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerDiedError(Exception):
    """Carries the end of the server's log, which is where the reason stands."""


class Child(Protocol):
    """What a server needs of its process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


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
        self.log.touch()
        self._process = self._launched(command, variables or {})
        atexit.register(self.stop)

    def _launched(self, command: Sequence[str | Path], variables: Mapping[str, str]) -> Child:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env={**os.environ, **variables},
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  one system call, no lock
            )

    @property
    def pid(self) -> int:
        """Under which /proc knows it."""
        return self._process.pid

    def most_memory_mib(self) -> int:
        """The most memory that its process has had at a time."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(peak) // 1024

    def wait_until(
        self,
        description: str,
        predicate: Callable[[], T],
        timeout: float = PATIENCE_SECONDS,
    ) -> T:
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
    """Ports on which nobody listens, and that nobody is given before the server that is to have it.

    They are below those that the system gives to whoever asks for any, and to outgoing connections.
    """
    return list(islice(filter(_is_free, _PORTS), count))


def _ports() -> Iterator[int]:
    """For ever those that are for this one of the processes that test side by side."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = worker * PORTS_OF_A_WORKER % len(RESERVED_PORTS)
    own = RESERVED_PORTS[first : first + PORTS_OF_A_WORKER]
    begin = secrets.randbelow(len(own))  # for another run of the tests may be under way
    return cycle([*own[begin:], *own[:begin]])


_PORTS = _ports()


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
