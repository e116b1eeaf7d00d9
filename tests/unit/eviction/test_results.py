"""The results of evictions, by the node of the replacement and its load."""

from datetime import timedelta

import msgspec
import pytest

from desched.eviction.follow_up import follow_up
from desched.model.cluster import MIGRATING_ANNOTATION, Owner
from desched.model.landing import LandingChance
from desched.model.load import LoadProblem
from desched.model.plan import ResourceRelief
from desched.model.resources import Resource
from desched.model.state import (
    LONGEST_MIGRATION,
    TAKEN_OVER_PATIENCE,
    MoveResult,
    State,
)
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import Protections
from tests.builders import (
    NOW,
    amounts,
    followed_up,
    load,
    measured,
    node,
    pod,
    policy,
    rule,
    snapshot,
    unknown,
    workload,
)
from tests.unit.eviction.moves import (
    CALM,
    DUE,
    EVICTED_AT,
    POLICY,
    followed,
    look,
    minutes,
    record,
    replacement,
    result,
)

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("left_ratio", "expected"),
    [
        (0.85, MoveResult.LANDED_AS_FORECAST),
        (0.83, MoveResult.LANDED_OVERLOADED),
        (None, MoveResult.LANDED_OVERLOADED),
    ],
)
def test_a_levelled_node_may_be_replaced_by_one_that_is_no_fuller(
    left_ratio: float | None, expected: MoveResult
) -> None:
    left = () if left_ratio is None else (ResourceRelief(Resource.CPU, left_ratio),)
    seen = look([replacement()], {**CALM, "n1": 0.84})
    assert result(record(levelled_to=left, cpu_millicores=0.0), seen) is expected


def test_a_replacement_that_cannot_start_says_why_and_is_not_awaited_for_longer() -> None:
    broken = look([replacement(ready=False, waiting_for="ImagePullBackOff")])
    starting = look([replacement(ready=False, waiting_for="ContainerCreating")])

    (now,) = followed(record(), broken).settled
    (later,) = followed(record(), starting, DUE).settled

    assert result(record(), starting) is None
    assert result(record(), broken, EVICTED_AT + minutes(0.9)) is None
    assert (now.result, now.waiting_for) == (MoveResult.NOT_READY, "ImagePullBackOff")
    assert (later.result, later.waiting_for) == (MoveResult.NOT_READY, "ContainerCreating")


def test_a_landing_is_no_result_while_the_evicted_pod_runs_on() -> None:
    """As on a node whose kubelet has stopped: the pod runs, and its replacement is Ready."""
    leaving = look([replacement(), pod("web-0", "n0", deleting=True)])
    state = State((record(left_at=None),))

    assert result(state, leaving) is None
    assert result(state, leaving, DUE) is MoveResult.LANDED_AS_FORECAST


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("n1", MoveResult.LANDED_AS_FORECAST),
        ("n2", MoveResult.LANDED_AS_FORECAST),
        ("n3", MoveResult.LANDED_ELSEWHERE),
        ("n0", MoveResult.BACK_ON_SOURCE),
    ],
)
def test_a_ready_replacement_is_judged_by_its_node(on, expected):
    after = followed(record(), look([replacement(on=on)]))
    (settled,) = after.settled
    assert settled.result is expected
    assert settled.landed_on == on
    assert settled.settled_at == NOW
    assert settled.replacement == replacement().ref
    assert after.state.evictions == (settled,)


def test_any_of_the_likeliest_nodes_is_as_forecast():
    chances = tuple(LandingChance(name, 0.5) for name in ("n1", "n2"))
    assert result(record(landing=chances), look([replacement(on="n2")])) is (
        MoveResult.LANDED_AS_FORECAST
    )


def test_a_node_that_is_overloaded_with_the_replacement_is_hot():
    assert (
        result(record(), look([replacement()], CALM | {"n1": 0.9})) is MoveResult.LANDED_OVERLOADED
    )


def test_what_the_windows_have_not_seen_of_the_replacement_counts():
    # 0.4 cores of 4 are 10 %, of which the window of five minutes has seen two fifths.
    assert (
        result(record(), look([replacement()], CALM | {"n1": 0.75})) is MoveResult.LANDED_OVERLOADED
    )
    assert result(record(), look([replacement()], CALM | {"n1": 0.73})) is (
        MoveResult.LANDED_AS_FORECAST
    )


def test_other_pods_that_arrive_are_not_held_against_the_move():
    others = [
        pod(f"db-{i}", "n1", of="db", created_at=NOW, started_at=NOW, request=amounts(1))
        for i in range(2)
    ]
    assert result(record(), look([replacement(), *others], CALM | {"n1": 0.6})) is (
        MoveResult.LANDED_AS_FORECAST
    )


@pytest.mark.parametrize(
    "seen",
    [
        look([replacement()], CALM | {"n1": unknown()}),
        look([replacement(on="n9")]),
        msgspec.structs.replace(
            look([replacement()]),
            load=load({"n1": (0.5, 0.1)}, problems=[(LoadProblem.PARTIAL_DATA, "half")]),
        ),
    ],
    ids=["no load", "out of scope", "partial data"],
)
def test_a_landing_on_unknown_load_waits_and_is_never_blamed(seen):
    assert result(record(), seen) is None
    assert result(record(), seen, DUE - SECOND) is None
    assert result(record(), seen, DUE) is MoveResult.LOAD_UNKNOWN


def test_coming_back_is_known_without_any_load():
    seen = look([replacement(on="n0")], CALM | {"n0": unknown()})
    assert result(record(), seen) is MoveResult.BACK_ON_SOURCE


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], MoveResult.NEVER_CAME),
        ([replacement(on="", ready=False, phase="Pending")], MoveResult.STILL_PENDING),
        ([replacement(ready=False)], MoveResult.NOT_READY),
        ([replacement(on="n0", ready=False)], MoveResult.BACK_ON_SOURCE),
    ],
)
def test_what_is_not_ready_is_waited_for_and_then_judged(pods, expected):
    assert result(record(), look(pods), DUE - SECOND) is None
    assert result(record(), look(pods), DUE) is expected


def test_without_a_time_of_its_own_an_eviction_is_judged_after_the_policys_patience():
    open_ended = record(judged_by=None)
    assert result(open_ended, look(), EVICTED_AT + minutes(10) - SECOND) is None
    assert result(open_ended, look(), EVICTED_AT + minutes(10)) is MoveResult.NEVER_CAME


def test_a_pod_that_is_still_ending_has_stayed_rather_than_failed():
    assert result(record(left_at=None), look(), DUE) is MoveResult.STAYED


def test_an_eviction_that_was_taken_over_has_patience_from_when_its_pod_left():
    left_at = DUE - minutes(1)
    taken_over = record(taken_over=True, left_at=left_at)
    assert result(taken_over, look(), DUE) is None
    assert result(taken_over, look(), left_at + minutes(10)) is MoveResult.NEVER_CAME


@pytest.mark.parametrize("pods", [[], [replacement(on="n1")]], ids=["alone", "copied"])
def test_a_machine_whose_first_pod_does_not_end_has_stayed(pods):
    still_here = record(taken_over=True, left_at=None)
    late = EVICTED_AT + LONGEST_MIGRATION + minutes(10)
    assert result(still_here, look(pods), late - SECOND) is None
    settled = followed(still_here, look(pods), late).settled
    assert [(r.result, r.landed_on) for r in settled] == [(MoveResult.STAYED, "")]


def test_a_machine_has_landed_once_it_has_left_its_first_pod():
    copying = record(taken_over=True, left_at=None)
    target = replacement(on="n1")
    assert result(copying, look([target]), DUE) is None
    moved = record(taken_over=True, left_at=DUE)
    assert result(moved, look([target]), DUE) is MoveResult.LANDED_AS_FORECAST


@pytest.mark.parametrize(
    ("annotations", "longest"),
    [({}, TAKEN_OVER_PATIENCE), ({MIGRATING_ANNOTATION: "kubevirt"}, LONGEST_MIGRATION)],
)
def test_a_migration_is_awaited_for_longer_while_kubevirt_marks_its_pod(annotations, longest):
    begun = record(taken_over=True, left_at=None)
    source = pod(begun.pod.name, on=begun.node, annotations=annotations, uid=begun.pod.uid)
    assert looked_at(begun, [source], EVICTED_AT + longest - SECOND) == ((begun,), ())
    evictions, (settled,) = looked_at(begun, [source], EVICTED_AT + longest)
    assert (evictions, settled.result) == ((), MoveResult.STAYED)


def looked_at(begun, pods, now):
    """The evictions after a look at these pods, and those that ended because their pod stayed."""
    observed = State((begun,)).observed(pods, now, timedelta(hours=1))
    return observed.state.evictions, observed.stayed


def test_an_eviction_whose_answer_was_lost_has_stayed_if_its_pod_is_not_being_deleted():
    begun = record(unanswered=True, left_at=None)
    source = pod(begun.pod.name, on=begun.node)
    deleting = msgspec.structs.replace(source, deleting=True)
    stayed = msgspec.structs.replace(begun, result=MoveResult.STAYED, settled_at=NOW)
    assert looked_at(begun, [source], NOW) == ((), (stayed,))
    assert looked_at(begun, [deleting], NOW) == ((begun,), ())
    left = msgspec.structs.replace(begun, left_at=NOW)
    assert looked_at(begun, [], NOW) == ((left,), ())


def test_an_eviction_that_was_recorded_and_not_requested_is_forgotten():
    begun = record(left_at=None)
    assert looked_at(begun, [pod(begun.pod.name, on=begun.node)], NOW) == ((), ())


def test_a_result_is_not_replaced_because_the_pod_stays():
    known = record(taken_over=True, left_at=None, result=MoveResult.STAYED)
    source = pod(known.pod.name, on=known.node)
    assert looked_at(known, [source], EVICTED_AT + TAKEN_OVER_PATIENCE) == ((), ())


def test_a_pod_that_stayed_rests_but_has_not_moved():
    begun = record(taken_over=True, left_at=None, replacement=replacement().ref)
    source = pod(begun.pod.name, on=begun.node)
    later = EVICTED_AT + TAKEN_OVER_PATIENCE
    observed = State((begun,)).observed([source], later, timedelta(hours=1))
    after = followed_up(observed.state, look([source]), POLICY, later, observed.stayed)
    (settled,) = after.settled
    assert (settled.replacement, settled.landed_on, settled.settled_at) == (None, "", later)
    (cool_down,) = after.state.cool_downs
    assert (cool_down.workload, cool_down.result) == (begun.workload, MoveResult.STAYED)
    assert cool_down.until > later
    assert (after.state.evictions, after.state.moves, after.state.failures) == ((), (), ())


def test_what_another_eviction_may_have_as_its_replacement_is_free_once_the_pod_stayed():
    copied = record("web-1", taken_over=True, left_at=None)
    gone = record("web-0", left_at=EVICTED_AT)
    source, new = pod("web-1", on="n0"), replacement()
    later = EVICTED_AT + TAKEN_OVER_PATIENCE
    observed = State((copied, gone)).observed([source, new], later, timedelta(hours=1))
    after = followed_up(observed.state, look([source, new]), POLICY, later, observed.stayed)
    found = {r.pod.name: (r.result, r.replacement) for r in after.settled}
    assert found == {
        "web-0": (MoveResult.LANDED_AS_FORECAST, new.ref),
        "web-1": (MoveResult.STAYED, None),
    }


def test_a_workload_that_is_gone_wants_no_replacement():
    assert result(record(), look(workloads=[workload("db")])) is MoveResult.NOT_WANTED


def test_a_workload_that_wants_fewer_and_has_them_wants_no_replacement():
    fewer = [workload("web", replicas=2)]
    complete = [pod("web-1", "n1"), pod("web-2", "n2")]
    assert result(record(), look(complete, workloads=fewer)) is MoveResult.NOT_WANTED


def test_a_workload_that_wants_fewer_and_lacks_some_is_waited_for():
    seen = look([pod("web-1", "n1")], workloads=[workload("web", replicas=2)])
    assert result(record(), seen) is None
    assert result(record(), seen, DUE) is MoveResult.NOT_WANTED


def test_a_replacement_counts_although_fewer_are_wanted():
    seen = look([replacement()], workloads=[workload("web", replicas=2)])
    assert result(record(), seen) is MoveResult.LANDED_AS_FORECAST


def test_workloads_of_declared_kinds_are_followed_as_well():
    by = policy(protections=Protections(understood_owner_kinds=("argoproj.io/Rollout",)))
    owner = Owner("ReplicaSet", "web-1", "uid-rs", "apps/v1")
    owners = {("apps", "uid-rs"): Owner("Rollout", "web", "uid-web", "argoproj.io/v1alpha1")}
    seen = look([replacement(owner=owner)], workloads=[workload("db")], controller_owners=owners)
    moved = record(workload_uid="apps/uid-web")
    assert result(moved, seen, by=by) is MoveResult.LANDED_AS_FORECAST
    # Without any pod it is not known at all, and may be back in a moment.
    without = look(workloads=[workload("db")], controller_owners=owners)
    assert result(moved, without, by=by) is None
    assert result(moved, without, DUE, by=by) is MoveResult.NOT_WANTED


def test_how_many_replicas_a_workload_of_a_declared_kind_wants_is_not_guessed_from_its_pods():
    by = policy(protections=Protections(understood_owner_kinds=("argoproj.io/Rollout",)))
    owner = Owner("Rollout", "web", "uid-web", "argoproj.io/v1alpha1")
    seen = look([pod("web-1", "n1", owner=owner)], workloads=[workload("db")])
    moved = record(replicas=2, workload_uid="apps/uid-web")
    assert result(moved, seen, by=by) is None
    assert result(moved, seen, DUE, by=by) is MoveResult.NEVER_CAME


def test_every_window_has_to_be_above_the_target_for_a_landing_to_be_hot():
    by = policy(rule(Resource.CPU, windows_seconds=(300, 600)))
    nodes = [node(name) for name in ("n0", "n1")]
    calm_for_long = load({"n0": (measured(0.5, 0.5), 0.0), "n1": (measured(0.9, 0.5), 0.0)})
    seen = snapshot(nodes, [replacement()], calm_for_long, [workload("web")])
    assert result(record(), seen, by=by) is MoveResult.LANDED_AS_FORECAST


def test_without_anything_in_flight_no_pod_is_looked_at():
    class Untouchable(tuple[object, ...]):
        __slots__ = ()

        def __iter__(self):
            pytest.fail("looked at the pods")

    settled = followed(record(), look([replacement()])).state
    for state in (State(), msgspec.structs.replace(settled, nodes=())):
        context = EligibilityContext.of(UsageBook(look(), policy(), NOW), state)
        pressure = classify(context.book, state)
        unseen = msgspec.structs.replace(context.cluster, pods=Untouchable())
        blind = msgspec.structs.replace(context, cluster=unseen)
        assert follow_up(blind, pressure).settled == ()
