"""`desched resume`: the end of pauses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from msgspec.structs import replace

    from desched.bootstrap.interventions import Change, Scope, intervene, scope_of
    from desched.model.state import CoolDown, NodeRounds, Pause, State
    from desched.views.status import pause_line, pause_origin
    from desched.wording.formatting import first_names, plain


class Resumption(NamedTuple):
    """The state after a resume, and what the resume ended."""

    state: State
    pauses: tuple[Pause, ...] = ()
    cool_downs: tuple[CoolDown, ...] = ()
    nodes: tuple[NodeRounds, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the resume ended anything."""
        return bool(self.pauses or self.cool_downs or self.nodes)


def run(invocation: Invocation) -> None:
    """Resume what the flags name."""
    settings = invocation.settings()
    intervene(settings, resuming(invocation.flags))


def resuming(flags: Mapping[str, str]) -> Change:
    """The change that resumes what the flags name.

    Raises:
        ConfigurationError: a flag is invalid.
    """
    if "all" in flags and len(flags) > 1:
        raise ConfigurationError("--all ends every pause; omit --workload, --namespace and --pool.")
    scope = None if "all" in flags else scope_of(flags)

    def change(state: State, now: datetime, _by: str) -> tuple[State, list[str]]:
        resumption = resume(state, scope) if scope else resume_all(state)
        after = resumption.state if resumption.changed else state
        return after, [plain(line) for line in _summary(resumption, scope, now)]

    return change


def resume(state: State, scope: Scope) -> Resumption:
    """The state without all pauses of this scope and their causes.

    Resuming a workload also ends its cool-down.
    """
    ended = tuple(pause for pause in state.pauses if scope.is_of(pause))
    cool_downs = tuple(
        cool_down for cool_down in state.cool_downs if scope.is_workload(cool_down.workload)
    )
    for pause in ended:
        state = state.without_pause(pause)
    state = replace(
        state,
        cool_downs=tuple(
            cool_down for cool_down in state.cool_downs if cool_down not in cool_downs
        ),
        failures=tuple(f for f in state.failures if not scope.is_workload(f.workload)),
    )
    return Resumption(state, ended, cool_downs)


def resume_all(state: State) -> Resumption:
    """The state without any pause or cool-down, and without their causes."""
    resumed = replace(state, pauses=(), cool_downs=(), nodes=(), failures=())
    return Resumption(resumed, state.pauses, state.cool_downs, state.nodes)


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


COMMAND = Command(
    "resume",
    details="Without a flag it ends the pause of everything.",
    examples={
        "desched resume": "end the pause of everything",
        "desched resume --workload shop/web": "end its pause and its cool-down",
    },
    settings=CONNECTION,
    parameters=(
        own_flag("--workload NAMESPACE/NAME", "The workload to resume, such as shop/web."),
        own_flag("--namespace NAME", "The namespace to resume."),
        own_flag("--pool NAME", "The pool of the policy's nodePools to resume."),
        own_flag("--all", "End every pause and every cool-down."),
    ),
)
