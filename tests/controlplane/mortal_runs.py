"""Runs of desched that die at a chosen step, as by kill -9, or at which something happens then.

Each is a process of its own: see `forks.py`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from subprocess import CompletedProcess
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.bootstrap import process, runs, side_tasks
from desched.bootstrap.state import state_store
from desched.ports import Lease, LeaseRecord
from tests.controlplane import forks
from tests.mortal import Fate, Moment, Step, mortal, mortal_world

KILLED = -signal.SIGKILL


class Death(NamedTuple):
    """At this step, the first one after a call to `since`, the process kills itself."""

    call: str
    moment: Moment
    since: str = ""


def run(arguments: Sequence[str], death: Death | None = None) -> CompletedProcess[str]:
    """Desched with these arguments, to its end."""
    return forks.run(arguments) if death is None else forks.run(arguments, partial(_doom, death))


def run_disturbed(
    arguments: Sequence[str], call: str, command: Sequence[str]
) -> CompletedProcess[str]:
    """Desched with these arguments, to its end; before its first such call, a command runs."""
    return forks.run(arguments, partial(_disturb, call, command))


def steps_in(error: str) -> list[str]:
    """The calls of a run that was to tell them, in their order, from its standard error."""
    lines = (line.partition(_MARK) for line in error.splitlines())
    return [call for _, mark, call in lines if mark]


UNHARMED = Death("", Moment.BEFORE)
"""Of a run that tells its calls and does not die."""

_MARK = "step: "


def _doom(death: Death) -> None:
    _make_mortal(_Watch(death))


def _disturb(call: str, command: Sequence[str]) -> None:
    due = [Step(call, Moment.BEFORE)]

    def fate(step: Step) -> None:
        if step in due:
            due.remove(step)
            subprocess.run(command, check=True, stdout=sys.stderr)

    _make_mortal(fate)


class _Watch:
    """Kills the process at its step; the lease has a thread of its own."""

    def __init__(self, death: Death) -> None:
        self._death = death
        self._armed = not death.since
        self._lock = Lock()

    def __call__(self, step: Step) -> None:
        with self._lock:
            if step.moment is Moment.BEFORE and not step.call.startswith("clock."):
                os.write(sys.stderr.fileno(), f"{_MARK}{step.call}\n".encode())
            if self._armed and step == (self._death.call, self._death.moment):
                os.kill(os.getpid(), signal.SIGKILL)
            self._armed |= step == (self._death.since, Moment.AFTER)


def _make_mortal(fate: Fate) -> None:
    """From now on the composition root makes ports of which each call is a step."""
    world = process.Process.world
    for target, name, replacement in (
        (process.Process, "world", lambda self: mortal_world(world(self), fate)),
        (process, "state_store", _made_mortal(state_store, "state", fate)),
        (side_tasks, "KubernetesLease", _made_mortal_lease(fate)),
        (runs, "EventWriter", _made_mortal(EventWriter, "events", fate)),
    ):
        mock.patch.object(target, name, replacement).start()


def _made_mortal(make: Callable[..., Any], name: str, fate: Fate) -> Callable[..., Any]:
    def made(*arguments: Any, **named: Any) -> Any:
        return mortal(make(*arguments, **named), name, fate)

    return made


class _MortalLease:
    """A replacement by a record without a holder is a step of its own: the release."""

    def __init__(self, lease: Lease, fate: Fate) -> None:
        self._lease = mortal(lease, "lease", fate)
        self._last = mortal(SimpleNamespace(release=lease.replace), "lease", fate)

    def read(self) -> LeaseRecord | None:
        return self._lease.read()

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        return self._lease.create(record)

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        store = self._lease.replace if record.holder else self._last.release
        stored: LeaseRecord | None = store(record)
        return stored


def _made_mortal_lease(fate: Fate) -> Callable[..., Lease]:
    def made(*arguments: Any, **named: Any) -> Lease:
        return _MortalLease(KubernetesLease(*arguments, **named), fate)

    return made
