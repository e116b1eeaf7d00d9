"""What a person's pause and resume change, and what they leave."""

from datetime import timedelta

import pytest

from desched.bootstrap.interventions import Scope
from desched.commands.pause import with_pause
from desched.commands.resume import resume, resume_all
from desched.model.cluster import PodRef
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    Failure,
    MoveResult,
    NodeRounds,
    Pause,
    PauseScope,
    State,
)
from tests.builders import NOW, certain

HOUR = timedelta(hours=1)
EVERYTHING = Scope()
WEB = Scope(PauseScope.WORKLOAD, "shop/web")
GPU = Scope(PauseScope.POOL, "gpu")
SHOP = Scope(PauseScope.NAMESPACE, "shop")
SCOPES = (EVERYTHING, WEB, GPU, SHOP)


def by_alice(scope: Scope, until=None) -> Pause:
    return Pause(scope.kind, NOW, until, scope.subject, by="alice")


def by_itself(scope: Scope, subject: str | None = None) -> Pause:
    return Pause(scope.kind, NOW, NOW + HOUR, scope.subject if subject is None else subject)


def failure(workload: str, pool: str = "") -> Failure:
    return Failure(workload, pool, NOW, MoveResult.NOT_READY)


def cool_down(name: str) -> CoolDown:
    return CoolDown(f"uid-{name}", name, NOW + HOUR, level=2)


def test_a_pause_replaces_the_persons_earlier_one_of_the_same_scope_alone():
    others = (by_alice(WEB), by_alice(GPU), by_itself(EVERYTHING))
    state = State(pauses=(by_alice(EVERYTHING, NOW + HOUR), *others))
    longer = by_alice(EVERYTHING)
    assert with_pause(state, longer).pauses == (*others, longer)


def test_a_pause_changes_nothing_else():
    record = EvictionRecord(PodRef("shop", "web-1", "u"), "n1", "uid-web", NOW, certain("n2"))
    state = State(evictions=(record,), cool_downs=(cool_down("a"),), since=NOW)
    after = with_pause(state, by_alice(EVERYTHING))
    assert after == State(
        evictions=(record,),
        cool_downs=(cool_down("a"),),
        since=NOW,
        pauses=(by_alice(EVERYTHING),),
    )


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_resume_ends_the_pauses_of_its_scope_whoever_began_them_and_no_other(scope):
    pauses = {s: (by_alice(s), by_itself(s)) for s in SCOPES}
    state = State(pauses=sum(pauses.values(), ()))
    after = resume(state, scope)
    assert after.pauses == pauses[scope]
    assert set(after.state.pauses) == {p for s in pauses if s != scope for p in pauses[s]}
    assert after.changed


@pytest.mark.parametrize(
    ("subject", "matches"),
    [
        ("shop/web", True),
        ("Deployment shop/web", True),
        ("StatefulSet shop/web", True),
        ("shop/web-2", False),
        ("Deployment my-shop/web", False),
        ("Deployment shop/web-2", False),
    ],
)
def test_a_workload_is_matched_with_and_without_its_kind(subject, matches):
    after = resume(State(pauses=(by_itself(WEB, subject),)), WEB)
    assert bool(after.pauses) is matches


def test_a_pool_with_a_blank_in_its_name_is_not_taken_for_a_kind():
    pool = Pause(PauseScope.POOL, NOW, None, "big gpu", by="alice")
    assert not resume(State(pauses=(pool,)), GPU).changed
    assert resume(State(pauses=(pool,)), Scope(PauseScope.POOL, "big gpu")).changed


def test_the_failures_behind_an_automatic_pause_are_forgotten_with_it():
    state = State(pauses=(by_itself(GPU),), failures=(failure("a", "gpu"), failure("b", "general")))
    assert resume(state, GPU).state.failures == (failure("b", "general"),)


def test_a_workload_that_is_resumed_is_free_of_its_cool_down_and_its_failures():
    mine, other = "Deployment shop/web", "Deployment shop/db"
    state = State(
        cool_downs=(cool_down(mine), cool_down(other)), failures=(failure(mine), failure(other))
    )
    after = resume(state, WEB)
    assert after.cool_downs == (cool_down(mine),)
    assert after.state.cool_downs == (cool_down(other),)
    assert after.state.failures == (failure(other),)
    assert resume(state, EVERYTHING).state == state


def test_resuming_all_ends_every_rest_and_leaves_the_evictions():
    record = EvictionRecord(PodRef("shop", "web-1", "u"), "n1", "uid-web", NOW, certain("n2"))
    cooling_nodes = NodeRounds("n1", 3, NOW, NOW + HOUR)
    state = State(
        evictions=(record,),
        since=NOW,
        pauses=(by_alice(EVERYTHING), by_itself(GPU)),
        cool_downs=(cool_down("a"),),
        nodes=(cooling_nodes,),
        failures=(failure("a"),),
    )
    after = resume_all(state)
    assert after.state == State(evictions=(record,), since=NOW)
    assert (after.pauses, after.cool_downs, after.nodes) == (
        state.pauses,
        state.cool_downs,
        state.nodes,
    )
