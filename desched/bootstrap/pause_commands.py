"""The orders of people to pause and resume, and how they reach a state that others write too."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TextIO, TypeVar

from desched.errors import (
    ConfigurationError,
    ObservationError,
    ObservationSource,
    StateConflict,
    StateRefused,
    StopActing,
)
from desched.model.interventions import Resumption, Scope, all_resumed, resumed, with_pause
from desched.model.state import Pause, PauseScope, State
from desched.model.stored_state import pruned
from desched.policy.durations import duration_seconds
from desched.ports import Clock, StateStore
from desched.service.reports.formatting import clock_time, count, plain, span
from desched.service.reports.status import pause_line, pause_origin

ATTEMPTS = 5
"""At a change that somebody else gets in between of."""

PAUSE_SECONDS = 0.5
LONGEST_PAUSE = timedelta(days=366)
LONGEST_REASON = 200  # characters
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_WORKLOAD = re.compile(rf"([A-Za-z]+\s+)?(?P<name>{_NAME}/{_NAME})")

T = TypeVar("T")


class OperatorContext(NamedTuple):
    """What a command works with; `by` is the person who gave it."""

    store: StateStore
    clock: Clock
    by: str
    stdout: TextIO
    stderr: TextIO


PauseCommand = Callable[[OperatorContext], None]


def pausing(flags: Mapping[str, str]) -> PauseCommand:
    """The order to pause what the flags say.

    Raises:
        ConfigurationError: they cannot be understood.
    """
    scope = _scope(flags)
    lasting = _lasting(flags["for"]) if "for" in flags else None
    why = plain(flags.get("because", ""))[:LONGEST_REASON]

    def command(context: OperatorContext) -> None:
        def change(state: State, now: datetime) -> tuple[State, Pause]:
            until = now + lasting if lasting else None
            pause = Pause(scope.kind, now, until, scope.subject, why, context.by)
            return with_pause(state, pause), pause

        pause, now = _changed(context, change)
        if pause.until is None:
            until = f"until it is resumed (`desched resume{_flag(scope)}`)"
        else:
            until = f"until {clock_time(pause.until, now)} ({span(pause.until - now)})"
        context.stdout.write(
            f"Paused {scope} {until}. Evictions under way are finished; no new one begins.\n"
        )

    return command


def resuming(flags: Mapping[str, str]) -> PauseCommand:
    """The order to resume what the flags say.

    Raises:
        ConfigurationError: they cannot be understood.
    """
    if "all" in flags and len(flags) > 1:
        raise ConfigurationError("--all ends every pause; leave out --workload and --pool.")
    scope = None if "all" in flags else _scope(flags)

    def command(context: OperatorContext) -> None:
        def change(state: State, now: datetime) -> tuple[State, Resumption]:
            del now
            resumption = resumed(state, scope) if scope else all_resumed(state)
            return resumption.state if resumption.changed else state, resumption

        resumption, now = _changed(context, change)
        for line in _ended(resumption, scope, now):
            context.stdout.write(f"{plain(line)}\n")

    return command


def _ended(resumption: Resumption, scope: Scope | None, now: datetime) -> list[str]:
    lines = [f"Ended the pause of {p}, {pause_origin(p, now)}." for p in resumption.pauses]
    if resumption.cool_downs:
        workloads = sorted(cool_down.workload for cool_down in resumption.cool_downs)
        lines.append(f"Ended the cool-down of {_names(workloads)}.")
    if resumption.nodes:
        nodes = sorted(node.node for node in resumption.nodes)
        lines.append(f"Forgot the rounds of {_names(nodes)}.")
    if not resumption.changed:
        lines.append(f"Nothing was paused as {scope}." if scope else "Nothing was paused.")
    lines += [f"Still paused: {pause_line(p, now)}." for p in resumption.state.pauses]
    return lines


def _names(names: list[str], most: int = 10) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {count(more, 'other')}" if more > 0 else "")


def _changed(
    context: OperatorContext, change: Callable[[State, datetime], tuple[State, T]]
) -> tuple[T, datetime]:
    """Load, change and save until nobody gets in between; what has not changed is not saved.

    Raises:
        ConfigurationError: the state may not be written.
        ObservationError: it could not be read, or it is not known whether it was written.
    """
    for attempt in range(ATTEMPTS):
        if attempt and context.clock.wait(PAUSE_SECONDS):
            break
        stored = context.store.load()
        now = context.clock.now()
        if stored.problem:
            context.stderr.write(f"desched: {plain(stored.problem)}\n")
        # Without a state nobody knows what was evicted before.
        before = stored.state or State(since=now)
        after, result = change(before, now)
        try:
            if after != before:
                context.store.save(pruned(after, now))
        except StateConflict:
            continue
        except StateRefused as error:
            raise ConfigurationError(str(error)) from error
        except StopActing as error:
            message = f"{error} See whether it holds with `desched status`."
            raise ObservationError(ObservationSource.CLUSTER, message) from error
        return result, now
    raise ObservationError(
        ObservationSource.CLUSTER,
        f"The state was changed by others at each of {ATTEMPTS} attempts, so nothing was written; "
        "give the command again.",
    )


def _scope(flags: Mapping[str, str]) -> Scope:
    if "workload" in flags and "pool" in flags:
        raise ConfigurationError("--workload and --pool: name one of them; pause twice for both.")
    if "pool" in flags:
        return Scope(PauseScope.POOL, _pool(flags["pool"]))
    if "workload" not in flags:
        return Scope()
    found = _WORKLOAD.fullmatch(flags["workload"].strip())
    if found is None:
        raise ConfigurationError(
            f'--workload: "{flags["workload"]}" is not NAMESPACE/NAME; write it like shop/web or '
            '"Deployment shop/web".'
        )
    return Scope(PauseScope.WORKLOAD, found["name"])


def _pool(name: str) -> str:
    if not name.strip():
        raise ConfigurationError("--pool: name a pool of the policy's nodePools.")
    return plain(name.strip())


def _lasting(text: str) -> timedelta:
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f'--for: "{text}" {error}.') from None
    if not 0 < seconds <= LONGEST_PAUSE.total_seconds():
        raise ConfigurationError(
            f'--for: "{text}" is not between 1s and {LONGEST_PAUSE.days} days; leave it out to '
            "pause until it is resumed."
        )
    return timedelta(seconds=seconds)


def _flag(scope: Scope) -> str:
    return f" --{scope.kind.value} {scope.subject}" if scope.subject else ""
