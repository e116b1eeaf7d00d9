"""Changes of the state by people: pause and resume."""

from typing import NamedTuple

from msgspec.structs import replace

from desched.model.state import CoolDown, NodeRounds, Pause, PauseScope, State


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


def with_pause(state: State, pause: Pause) -> State:
    """The state with a person's pause, which replaces an earlier one of the same scope.

    An automatic pause stays beside it, and still needs its probe afterwards.
    """
    scope = Scope(pause.scope, pause.subject)
    others = tuple(each for each in state.pauses if not (each.by and scope.is_of(each)))
    return replace(state, pauses=(*others, pause))


def resume(state: State, scope: Scope) -> Resumption:
    """The state without all pauses of this scope and their causes.

    Resuming a workload also ends its cool-down.
    """
    ended = tuple(pause for pause in state.pauses if scope.is_of(pause))
    cool_downs = tuple(each for each in state.cool_downs if scope.is_workload(each.workload))
    for pause in ended:
        state = state.without_pause(pause)
    state = replace(
        state,
        cool_downs=tuple(each for each in state.cool_downs if each not in cool_downs),
        failures=tuple(f for f in state.failures if not scope.is_workload(f.workload)),
    )
    return Resumption(state, ended, cool_downs)


def resume_all(state: State) -> Resumption:
    """The state without any pause or cool-down, and without their causes."""
    resumed = replace(state, pauses=(), cool_downs=(), nodes=(), failures=())
    return Resumption(resumed, state.pauses, state.cool_downs, state.nodes)
