"""`desched pause`: no evictions for a while."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from msgspec.structs import replace

    from desched.adapters.kubernetes.client.connection import KubernetesConnection
    from desched.adapters.kubernetes.existence import is_absent_namespace, is_absent_workload
    from desched.bootstrap.interventions import Change, Scope, intervene, scope_of
    from desched.model.state import Pause, PauseScope, State
    from desched.policy.durations import duration_seconds
    from desched.wording.formatting import clock_time, plain, span

LONGEST_PAUSE = timedelta(days=366)
LONGEST_REASON = 200  # characters


def run(invocation: Invocation) -> None:
    """Pause what the flags name."""
    settings = invocation.settings()
    kubernetes = intervene(settings, pausing(invocation.flags))
    if absent := _absent(scope_of(invocation.flags), kubernetes):
        sys.stderr.write(f"desched: {absent}\n")


def pausing(flags: Mapping[str, str]) -> Change:
    """The change that pauses what the flags name.

    Raises:
        ConfigurationError: a flag is invalid.
    """
    scope = scope_of(flags)
    length = _length(flags["for"]) if "for" in flags else None
    cause = plain(flags.get("because", ""))[:LONGEST_REASON]

    def change(state: State, now: datetime, by: str) -> tuple[State, list[str]]:
        if length is None:
            flag = f" --{scope.kind.value} {scope.subject}" if scope.subject else ""
            end, until = None, f"until it is resumed (`desched resume{flag}`)"
        else:
            end, until = now + length, f"until {clock_time(now + length, now)} ({span(length)})"
        line = f"Paused {scope} {until}. Evictions in flight are followed; no new one starts."
        return with_pause(state, Pause(scope.kind, now, end, scope.subject, cause, by)), [line]

    return change


def with_pause(state: State, pause: Pause) -> State:
    """The state with a person's pause, which replaces an earlier one of the same scope.

    An automatic pause stays beside it, and still needs its probe afterwards.
    """
    scope = Scope(pause.scope, pause.subject)
    others = tuple(each for each in state.pauses if not (each.by and scope.is_of(each)))
    return replace(state, pauses=(*others, pause))


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


def _absent(scope: Scope, kubernetes: KubernetesConnection) -> str:
    """A sentence if there is nothing of the name that was paused; else empty.

    The pause stands: what has the name may come to exist, and it is better to pause too much.
    """
    check = "check the name; a pause of another name protects nothing."
    subject = scope.subject
    if scope.kind is PauseScope.NAMESPACE and is_absent_namespace(kubernetes, subject):
        return f"There is no namespace {subject} now; {check}"
    if scope.kind is PauseScope.WORKLOAD:
        namespace, _, name = subject.partition("/")
        if is_absent_workload(kubernetes, namespace, name):
            return f"There is no Deployment, StatefulSet, ReplicaSet or Job {subject} now; {check}"
    if scope.kind is PauseScope.POOL:
        return f"This command does not read the policy: check that its nodePools name {subject}."
    return ""


COMMAND = Command(
    "pause",
    details="Without --workload, --namespace or --pool it pauses everything. Evictions in "
    "flight are followed.",
    examples={
        'desched pause --for 2h --because "storage upgrade"': "evict nothing for two hours",
        "desched pause --workload shop/web": "leave one workload alone until you resume it",
    },
    settings=CONNECTION,
    parameters=(
        own_flag("--workload NAMESPACE/NAME", "The workload to pause, such as shop/web."),
        own_flag("--namespace NAME", "The namespace to pause."),
        own_flag("--pool NAME", "The pool of the policy's nodePools to pause."),
        own_flag(
            "--for DURATION",
            "The length of the pause, such as 2h; by default until you resume.",
        ),
        own_flag("--because TEXT", "The reason, for other people."),
    ),
    refused={"--reason": "did you mean --because?"},
)
