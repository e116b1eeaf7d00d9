"""Pauses and resumptions: how people change a state that others write too."""

import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from getpass import getuser
from typing import NamedTuple

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.bootstrap.state import connected, state_store
from desched.errors import (
    ConfigurationError,
    ObservationError,
    ObservationSource,
    StateConflict,
    StateRefused,
    StopActing,
)
from desched.model.state import Pause, PauseScope, State
from desched.model.stored_state import pruned
from desched.ports import StateStore
from desched.service.process.clock import SystemClock
from desched.settings import Settings
from desched.wording.formatting import plain

ATTEMPTS = 5
"""Attempts to change the state while others change it too."""

RETRY_SECONDS = 0.5
LONGEST_NAME = 200  # characters
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_WORKLOAD = re.compile(rf"([A-Za-z]+\s+)?(?P<name>{_NAME}/{_NAME})")


class Scope(NamedTuple):
    """What to pause or resume: a workload as `namespace/name`, a pool, or everything."""

    kind: PauseScope = PauseScope.EVERYTHING
    subject: str = ""

    def is_of(self, pause: Pause) -> bool:
        """Whether the pause has exactly this scope."""
        return pause.scope is self.kind and self._names(pause.subject)

    def is_workload(self, workload: str) -> bool:
        """Whether the scope is this workload, with or without its kind."""
        return self.kind is PauseScope.WORKLOAD and self._names(workload)

    def _names(self, subject: str) -> bool:
        without_kind = subject.rpartition(" ")[2] if self.kind is PauseScope.WORKLOAD else subject
        return self.subject in {subject, without_kind}

    def __str__(self) -> str:
        return f"{self.kind.value} {self.subject}".strip()


def scope_of(flags: Mapping[str, str]) -> Scope:
    """The scope that the flags name, everything by default.

    Raises:
        ConfigurationError: a flag is invalid, or there are several.
    """
    named = [name for name in ("workload", "namespace", "pool") if name in flags]
    if len(named) > 1:
        raise ConfigurationError(
            f"{' and '.join(f'--{name}' for name in named)}: name only one of them, and run the "
            "command once for each."
        )
    if "namespace" in flags:
        namespace = flags["namespace"].strip()
        if not re.fullmatch(_NAME, namespace):
            raise ConfigurationError(f'--namespace: "{plain(namespace)}" is not a namespace.')
        return Scope(PauseScope.NAMESPACE, namespace)
    if "pool" in flags:
        pool = plain(flags["pool"].strip())
        if not pool:
            raise ConfigurationError("--pool: name a pool of the policy's nodePools.")
        return Scope(PauseScope.POOL, pool)
    if "workload" not in flags:
        return Scope()
    found = _WORKLOAD.fullmatch(flags["workload"].strip())
    if found is None:
        raise ConfigurationError(
            f'--workload: "{flags["workload"]}" is not NAMESPACE/NAME; write it like shop/web or '
            '"Deployment shop/web".'
        )
    return Scope(PauseScope.WORKLOAD, found["name"])


Change = Callable[[State, datetime, str], tuple[State, list[str]]]
"""From a state, the time and the person to the new state and the lines to print."""


class Intervention(NamedTuple):
    """What a change is made with.

    `now` is called after the state was loaded. `wait` returns true if the command must stop. `by`
    is the person who runs the command.
    """

    store: StateStore
    now: Callable[[], datetime]
    wait: Callable[[float], bool]
    by: str

    def make(self, change: Change) -> None:
        """Load, change and save the state, again if somebody else changed it meanwhile.

        A state that stays the same is not saved.

        Raises:
            ConfigurationError: the state must not be written.
            ObservationError: it could not be read, or it is unknown whether it was written.
        """
        for attempt in range(ATTEMPTS):
            if attempt and self.wait(RETRY_SECONDS):
                break
            stored = self.store.load()
            now = self.now()
            if stored.problem:
                sys.stderr.write(f"desched: {plain(stored.problem)}\n")
            # Without a state it is unknown what was evicted before.
            before = stored.state or State(since=now)
            after, lines = change(before, now, self.by)
            try:
                if after != before:
                    self.store.save(pruned(after, now))
            except StateConflict:
                continue
            except StateRefused as error:
                raise ConfigurationError(str(error)) from error
            except StopActing as error:
                message = f"{error} Run `desched status` to find out."
                raise ObservationError(ObservationSource.CLUSTER, message) from error
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        raise ObservationError(
            ObservationSource.CLUSTER,
            f"Others changed the state during each of {ATTEMPTS} attempts, so nothing was written; "
            "run the command again.",
        )


def intervene(settings: Settings, change: Change) -> KubernetesConnection:
    """Change the state in the cluster of the settings as the person who runs the command.

    Raises:
        ConfigurationError: the state must not be written.
        ObservationError: it could not be read, or it is unknown whether it was written.
    """
    clock = SystemClock()
    kubernetes = connected(settings, clock)
    store = state_store(settings, kubernetes)

    def now() -> datetime:
        """The API server's time, which the service's clock must match; this machine's may not."""
        return store.server_time or clock.now()

    Intervention(store, now, clock.wait, _person(kubernetes, settings)).make(change)
    return kubernetes


def _person(kubernetes: KubernetesConnection, settings: Settings) -> str:
    """Who runs the command: the user of the machine and of the kubeconfig, or the pod."""
    try:
        user = getuser()
    except (OSError, KeyError, ImportError):  # the user has no name, as in many containers
        user = "somebody"
    if kubernetes.in_cluster:
        account = f"in pod {settings.pod_name}" if settings.pod_name else "in a pod"
    else:
        account = f"as {kubernetes.account.user or 'an account without a name'}"
    return plain(f"{user} {account}")[:LONGEST_NAME]
