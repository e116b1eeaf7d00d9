"""What a person does to the state: pause, and resume."""

from typing import NamedTuple

from msgspec.structs import replace

from desched.model.state import CoolDown, NodeRounds, Pause, PauseScope, State


class Scope(NamedTuple):
    """What is to rest or to go on: a workload as `namespace/name`, a pool, or everything."""

    kind: PauseScope = PauseScope.EVERYTHING
    subject: str = ""

    def is_of(self, pause: Pause) -> bool:
        """Whether the pause is as wide as this, no wider and no narrower."""
        return pause.scope is self.kind and self._names(pause.subject)

    def is_workload(self, workload: str) -> bool:
        """Whether it is this workload, written as `Kind namespace/name` or without the kind."""
        return self.kind is PauseScope.WORKLOAD and self._names(workload)

    def _names(self, subject: str) -> bool:
        without_kind = subject.rpartition(" ")[2] if self.kind is PauseScope.WORKLOAD else subject
        return self.subject in {subject, without_kind}

    def __str__(self) -> str:
        return f"{self.kind.value} {self.subject}".strip()


class Resumption(NamedTuple):
    """The state after a resume, and what has been ended by it."""

    state: State
    pauses: tuple[Pause, ...] = ()
    cool_downs: tuple[CoolDown, ...] = ()
    nodes: tuple[NodeRounds, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything has been ended."""
        return bool(self.pauses or self.cool_downs or self.nodes)


def with_pause(state: State, pause: Pause) -> State:
    """The state with a person's pause, in place of an earlier one of the same scope.

    One that began by itself stays beside it, and still wants its probe afterwards.
    """
    scope = Scope(pause.scope, pause.subject)
    others = tuple(each for each in state.pauses if not (each.by and scope.is_of(each)))
    return replace(state, pauses=(*others, pause))


def resumed(state: State, scope: Scope) -> Resumption:
    """The state without the pauses of this scope, whoever began them, and without their causes.

    A workload's cool-down ends too, for that is how a workload rests by itself.
    """
    ended = tuple(pause for pause in state.pauses if scope.is_of(pause))
    cool_downs = tuple(
        cool_down for cool_down in state.cool_downs if scope.is_workload(cool_down.workload)
    )
    for pause in ended:
        state = state.without_pause(pause)
    return Resumption(
        replace(
            state,
            cool_downs=tuple(
                cool_down for cool_down in state.cool_downs if cool_down not in cool_downs
            ),
            failures=tuple(f for f in state.failures if not scope.is_workload(f.workload)),
        ),
        ended,
        cool_downs,
    )


def all_resumed(state: State) -> Resumption:
    """The state without any pause, cool-down or node that cools down, and without their causes."""
    return Resumption(
        replace(state, pauses=(), cool_downs=(), nodes=(), failures=()),
        state.pauses,
        state.cool_downs,
        state.nodes,
    )
