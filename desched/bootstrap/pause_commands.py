"""Pause and resume: changes that people make to a state that others write too."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TextIO

from desched.errors import (
    ConfigurationError,
    ObservationError,
    ObservationSource,
    StateConflict,
    StateRefused,
    StopActing,
)
from desched.model.interventions import Resumption, Scope, resume, resume_all, with_pause
from desched.model.state import Pause, PauseScope, State
from desched.model.stored_state import pruned
from desched.policy.durations import duration_seconds
from desched.ports import StateStore
from desched.views.formatting import clock_time, first_names, plain, span
from desched.views.status import pause_line, pause_origin

ATTEMPTS = 5
"""Attempts to change the state while others change it too."""

RETRY_SECONDS = 0.5
LONGEST_PAUSE = timedelta(days=366)
LONGEST_REASON = 200  # characters
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_WORKLOAD = re.compile(rf"([A-Za-z]+\s+)?(?P<name>{_NAME}/{_NAME})")


class OperatorContext(NamedTuple):
    """What a command works with.

    `now` is called after the state was loaded. `wait` returns true if the command must stop. `by`
    is the person who runs the command.
    """

    store: StateStore
    now: Callable[[], datetime]
    wait: Callable[[float], bool]
    by: str
    stdout: TextIO
    stderr: TextIO


Change = Callable[[State, datetime, str], tuple[State, list[str]]]
"""From a state, the time and the person to the new state and the lines to print."""


def pausing(flags: Mapping[str, str]) -> Change:
    """The change that pauses what the flags name.

    Raises:
        ConfigurationError: a flag is invalid.
    """
    scope = _scope(flags)
    length = _length(flags["for"]) if "for" in flags else None
    why = plain(flags.get("because", ""))[:LONGEST_REASON]

    def change(state: State, now: datetime, by: str) -> tuple[State, list[str]]:
        if length is None:
            flag = f" --{scope.kind.value} {scope.subject}" if scope.subject else ""
            end, until = None, f"until it is resumed (`desched resume{flag}`)"
        else:
            end, until = now + length, f"until {clock_time(now + length, now)} ({span(length)})"
        line = f"Paused {scope} {until}. Evictions in flight are followed; no new one starts."
        return with_pause(state, Pause(scope.kind, now, end, scope.subject, why, by)), [line]

    return change


def resuming(flags: Mapping[str, str]) -> Change:
    """The change that resumes what the flags name.

    Raises:
        ConfigurationError: a flag is invalid.
    """
    if "all" in flags and len(flags) > 1:
        raise ConfigurationError("--all ends every pause; omit --workload, --namespace and --pool.")
    scope = None if "all" in flags else _scope(flags)

    def change(state: State, now: datetime, _by: str) -> tuple[State, list[str]]:
        resumption = resume(state, scope) if scope else resume_all(state)
        after = resumption.state if resumption.changed else state
        return after, [plain(line) for line in _summary(resumption, scope, now)]

    return change


def apply(change: Change, context: OperatorContext) -> None:
    """Load, change and save the state, again if somebody else changed it meanwhile.

    A state that stays the same is not saved.

    Raises:
        ConfigurationError: the state must not be written.
        ObservationError: it could not be read, or it is unknown whether it was written.
    """
    for attempt in range(ATTEMPTS):
        if attempt and context.wait(RETRY_SECONDS):
            break
        stored = context.store.load()
        now = context.now()
        if stored.problem:
            context.stderr.write(f"desched: {plain(stored.problem)}\n")
        # Without a state it is unknown what was evicted before.
        before = stored.state or State(since=now)
        after, lines = change(before, now, context.by)
        try:
            if after != before:
                context.store.save(pruned(after, now))
        except StateConflict:
            continue
        except StateRefused as error:
            raise ConfigurationError(str(error)) from error
        except StopActing as error:
            message = f"{error} Run `desched status` to find out."
            raise ObservationError(ObservationSource.CLUSTER, message) from error
        context.stdout.writelines(f"{line}\n" for line in lines)
        return
    raise ObservationError(
        ObservationSource.CLUSTER,
        f"Others changed the state during each of {ATTEMPTS} attempts, so nothing was written; "
        "run the command again.",
    )


def _summary(resumption: Resumption, scope: Scope | None, now: datetime) -> list[str]:
    lines = [f"Ended the pause of {p}, {pause_origin(p, now)}." for p in resumption.pauses]
    if resumption.cool_downs:
        workloads = sorted(cool_down.workload for cool_down in resumption.cool_downs)
        lines.append(f"Ended the cool-down of {first_names(workloads)}.")
    if resumption.nodes:
        nodes = sorted(node.node for node in resumption.nodes)
        lines.append(f"Reset the rounds of {first_names(nodes)}.")
    if not resumption.changed:
        lines.append(f"There was no pause of {scope}." if scope else "There was no pause.")
    lines += [f"Still paused: {pause_line(p, now)}." for p in resumption.state.pauses]
    return lines


def _scope(flags: Mapping[str, str]) -> Scope:
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


def _length(text: str) -> timedelta:
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f'--for: "{text}" {error}.') from None
    if not 0 < seconds <= LONGEST_PAUSE.total_seconds():
        raise ConfigurationError(
            f'--for: "{text}" is not between 1s and {LONGEST_PAUSE.days} days; omit it to pause '
            "until you resume."
        )
    return timedelta(seconds=seconds)
