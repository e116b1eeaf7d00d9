"""Pauses that begin by themselves, and how they end."""

from types import MappingProxyType

import msgspec
import pytest

from desched.eviction.pauses import with_pauses, without_gone
from desched.model.cluster import owners_of
from desched.model.selectors import LabelSelector
from desched.model.state import Failure, MoveResult, Pause, PauseScope, RecentMove, State
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import NodePool
from tests.builders import NOW, followed_up, load, node, policy, snapshot
from tests.unit.eviction.moves import minutes, record

GOOD, BAD, NEUTRAL = (
    MoveResult.LANDED_AS_FORECAST,
    MoveResult.NOT_READY,
    MoveResult.NOT_WANTED,
)
ONE_POOL = policy()
GPU = NodePool("gpu", LabelSelector(), ONE_POOL.rules)
POOLS = policy(pools=(GPU,))
EVERYTHING, POOL, NAMESPACE = PauseScope.EVERYTHING, PauseScope.POOL, PauseScope.NAMESPACE


def failed(of, pool="", **fields):
    """A failed move of a workload, which has a namespace of its own unless it names one."""
    namespace, _, name = of.rpartition("/")
    workload = f"Deployment {namespace or f'of-{name}'}/{name}"
    fields = {"result": BAD, "settled_at": NOW, "workload": workload} | fields
    return record(f"{name}-0", of=name, pool=pool, **fields)


IN_GPU = [failed(name, "gpu") for name in ("web", "db", "cache")]
"""Failures of three owners in one pool."""


def after(state, *settled, by=POOLS, now=NOW, owners=MappingProxyType({})):
    return with_pauses(state, settled, by, now, owners)


def scopes(state):
    return [(pause.scope, pause.subject) for pause in state.pauses]


def due(scope=EVERYTHING, subject="", **fields):
    """A pause whose time was over before the eviction of the probe."""
    fields = {"since": NOW - minutes(60), "until": NOW - minutes(10)} | fields
    return Pause(scope, subject=subject, **fields)


def probe(result, of="web", pool="", **fields):
    return failed(of, pool, result=result, probe=True, **fields)


def test_one_workload_that_fails_pauses_nothing_however_often():
    state = after(State(), failed("web"), failed("web"), failed("web"))
    assert state.pauses == ()
    assert state.failures == (Failure("Deployment of-web/web", "", NOW, BAD),) * 3


def test_three_workloads_of_a_pool_pause_the_pool():
    state = after(State(), *IN_GPU)
    (pause,) = state.pauses
    assert (pause.scope, pause.subject) == (POOL, "gpu")
    assert (pause.since, pause.until, pause.level) == (NOW, NOW + minutes(30), 0)


def test_three_workloads_of_two_pools_pause_no_pool():
    assert after(moved(16, pool=""), *IN_GPU[:2], failed("cache")).pauses == ()


def test_nodes_without_a_pool_of_their_own_are_a_pool():
    assert scopes(after(State(), failed("web"), failed("db"), failed("cache"))) == [(POOL, "")]


@pytest.mark.parametrize("by", [ONE_POOL, policy(pools=(GPU,), only_pools=True)])
def test_with_a_single_pool_only_everything_is_paused(by):
    two = after(State(), failed("web", "gpu"), failed("db", "gpu"), by=by)
    assert two.pauses == ()
    assert scopes(after(two, failed("cache", "gpu"), by=by)) == [(EVERYTHING, "")]


def test_three_workloads_pause_everything_at_once():
    three = [failed("web", "gpu"), failed("db", "gpu"), failed("cache")]
    assert scopes(after(State(), *three)) == [(EVERYTHING, "")]


def moved(count, of="shop/web", pool="gpu", ago=10):
    """Moves whose results are known already."""
    move = RecentMove("uid", NOW - minutes(ago), "", f"Deployment {of}", pool)
    return State(moves=(move,) * count)


THREE_TEAMS = {f"of-{name}": f"team={name}" for name in ("web", "db", "cache")}


def test_a_few_failures_among_many_moves_pause_nothing():
    def found(moves, by=POOLS):
        return scopes(after(moves, *IN_GPU, by=by, owners=THREE_TEAMS))

    assert found(moved(16)) == []
    assert found(moved(15)) == [(POOL, "gpu")]
    assert found(moved(1000, ago=60)) == [(POOL, "gpu")]
    assert found(moved(16), by=ONE_POOL) == []
    assert found(moved(15), by=ONE_POOL) == [(EVERYTHING, "")]


@pytest.mark.parametrize(("by", "wide"), [(POOLS, (POOL, "gpu")), (ONE_POOL, (EVERYTHING, ""))])
def test_without_known_owners_less_than_half_of_all_moves_pause_their_namespaces_alone(by, wide):
    """One tenant may have any number of namespaces."""
    failing = [(NAMESPACE, f"of-{name}") for name in ("cache", "db", "web")]
    assert scopes(after(moved(16), *IN_GPU, by=by)) == []
    assert scopes(after(moved(15), *IN_GPU, by=by)) == failing
    assert scopes(after(moved(7), *IN_GPU, by=by)) == failing
    assert scopes(after(moved(6), *IN_GPU, by=by)) == [wide]
    one_team = dict.fromkeys(list(THREE_TEAMS)[:1], "team=shop")
    assert scopes(after(moved(15), *IN_GPU, by=by, owners=one_team)) == [wide]


def test_without_known_owners_three_namespaces_among_many_others_pause_themselves_alone():
    """They may all belong to one tenant, who may also have most of the moves."""
    failing = [failed(f"evil-{i}/{name}") for i in range(3) for name in "abc"]
    their_own = [(NAMESPACE, f"evil-{i}") for i in range(3)]
    for others, expected in ((3, [(EVERYTHING, "")]), (4, their_own)):
        moves = tuple(
            RecentMove("uid", NOW - minutes(1), workload=f"Deployment of-{i}/web")
            for i in range(others)
        )
        assert scopes(after(State(moves=moves), *failing, by=ONE_POOL)) == expected


def test_fewer_workloads_than_the_policy_says_pause_no_pool():
    by = policy(pools=(GPU,), follow_up=FollowUpRules(pause_workloads=4))
    assert scopes(after(State(), *IN_GPU, by=by)) == []
    assert scopes(after(State(), *IN_GPU, failed("mail", "gpu"), by=by)) == [(POOL, "gpu")]


def test_moves_elsewhere_do_not_excuse_a_pool_or_a_namespace():
    assert scopes(after(moved(16, pool=""), *IN_GPU)) == [(POOL, "gpu")]
    evil = [failed(f"evil/{name}", "gpu") for name in "abc"]
    assert scopes(after(moved(1000), *evil)) == [(NAMESPACE, "evil")]
    assert scopes(after(moved(16, of="evil/z"), *evil)) == []


@pytest.mark.parametrize("by", [ONE_POOL, POOLS])
def test_failures_in_one_namespace_pause_only_that_namespace(by):
    evil = [failed(f"evil/{name}", "gpu") for name in "abcdef"]
    assert after(State(), *evil[:2], by=by).pauses == ()
    state = after(State(), *evil, by=by)
    assert scopes(state) == [(NAMESPACE, "evil")]
    (pause,) = state.pauses
    assert pause.covers("Deployment evil/z", "gpu")
    assert not pause.covers("Deployment evil-2/evil", "gpu")
    assert "moves of 6 workloads failed within 1h: Deployment evil/a (not_ready)" in pause.why


def test_failures_in_three_namespaces_pause_everything_and_in_two_they_do_not():
    evil = [failed(f"evil/{name}") for name in "abc"]
    two = after(State(), *evil, failed("evil-2/a"), failed("evil-2/b"), by=ONE_POOL)
    assert scopes(two) == [(NAMESPACE, "evil")]
    assert scopes(after(two, failed("shop/web"), by=ONE_POOL)) == [
        (NAMESPACE, "evil"),
        (EVERYTHING, ""),
    ]


def test_failures_of_half_of_all_moves_pause_everything_in_two_namespaces_too():
    six = [failed(f"{namespace}/{name}") for namespace in ("a", "b") for name in "xyz"]
    both = [(NAMESPACE, "a"), (NAMESPACE, "b")]
    assert scopes(after(moved(12), *six, by=ONE_POOL)) == [(EVERYTHING, "")]
    assert scopes(after(moved(13), *six, by=ONE_POOL)) == both
    assert scopes(after(moved(3), *six[:5], by=ONE_POOL)) == both[:1]


@pytest.mark.parametrize("by", [ONE_POOL, POOLS])
def test_failures_of_one_owner_pause_only_the_namespaces_of_that_owner(by):
    evil = [failed(f"evil-{i}/web", "gpu") for i in range(5)]
    owners = owners_of({f"evil-{i}": {"team": "evil"} for i in range(5)}, "team")
    state = after(State(), *evil, by=by, owners=owners)
    assert scopes(state) == [(NAMESPACE, f"evil-{i}") for i in range(5)]
    assert (EVERYTHING, "") in scopes(after(state, failed("shop/web"), by=by, owners=owners))
    assert not {EVERYTHING, POOL}.isdisjoint(s for s, _ in scopes(after(State(), *evil, by=by)))


def test_no_value_of_the_label_makes_a_namespace_that_of_somebody_else():
    assert owners_of({"evil": {"team": "shop"}, "shop": {}}, "team") == {"evil": "team=shop"}


def test_a_probe_of_a_paused_namespace_ends_or_renews_its_pause():
    state = State(pauses=(due(NAMESPACE, "evil"), due(NAMESPACE, "shop")))
    assert after(state, probe(GOOD, of="evil/z")).pauses == (due(NAMESPACE, "shop"),)
    renewed, other = after(state, probe(BAD, of="evil/z")).pauses
    assert (renewed.level, other) == (1, due(NAMESPACE, "shop"))


def test_wider_evidence_widens_a_pause_and_the_narrow_one_stays():
    owners = THREE_TEAMS
    pool = after(moved(16, pool=""), *IN_GPU, owners=owners)
    assert scopes(after(pool, failed("mail"), owners=owners)) == [(POOL, "gpu"), (EVERYTHING, "")]


def test_what_failed_too_long_ago_does_not_count():
    early = after(State(), failed("web"), failed("db"), by=ONE_POOL)
    within = after(early, failed("cache"), by=ONE_POOL, now=NOW + minutes(59))
    beyond = after(early, failed("cache"), by=ONE_POOL, now=NOW + minutes(60))
    assert scopes(within) == [(EVERYTHING, "")]
    assert beyond.pauses == ()
    assert [failure.workload for failure in beyond.failures] == ["Deployment of-cache/cache"]


def test_a_pause_that_has_begun_does_not_begin_again():
    paused = after(State(), failed("web"), failed("db"), failed("cache"))
    again = after(paused, failed("mail"), now=NOW + minutes(20))
    assert again.pauses == paused.pauses
    assert after(again, failed("search"), now=NOW + minutes(40)).pauses == paused.pauses


def test_why_names_at_most_five_workloads_with_their_newest_results():
    by = policy(follow_up=FollowUpRules(pause_workloads=7))
    settled = [failed(f"web{i}") for i in range(7)]
    moves = [failed("web0", result=MoveResult.NEVER_CAME), *settled]
    (pause,) = after(State(), *moves, by=by).pauses
    assert pause.why == (
        "moves of 7 workloads failed within 1h: "
        + ", ".join(f"Deployment of-web{i}/web{i} (not_ready)" for i in range(5))
        + " and 2 more"
    )


def test_a_pause_does_not_end_with_its_time():
    state = State(pauses=(due(),))
    assert after(state, now=NOW + minutes(600)).pauses == state.pauses


def test_a_persons_pause_ends_with_its_time():
    over, lasting = due(by="anna"), due(by="anna", until=NOW + minutes(1))
    forever = due(by="anna", until=None)
    assert after(State(pauses=(over, lasting, forever))).pauses == (lasting, forever)


def test_a_probe_that_goes_well_ends_the_pause_for_good():
    evidence = [failed("web", "gpu"), failed("db", "gpu"), failed("cache")]
    began = NOW - minutes(50)
    paused = after(State(), *evidence, now=began)
    ended = after(paused, probe(GOOD))
    assert ended.pauses == ()
    assert ended.failures == ()
    assert after(ended, now=NOW + minutes(1)).pauses == ()


def test_a_probe_of_one_pool_clears_only_the_failures_of_that_pool():
    elsewhere = Failure("Deployment apps/db", "", NOW - minutes(5), BAD)
    here = Failure("Deployment apps/web", "gpu", NOW - minutes(5), BAD)
    state = State(pauses=(due(POOL, "gpu"), due(POOL, "")), failures=(here, elsewhere))
    ended = after(state, probe(GOOD, pool="gpu"))
    assert ended.pauses == (due(POOL, ""),)
    assert ended.failures == (elsewhere,)


def test_a_probe_that_fails_renews_the_pause_for_twice_as_long():
    state, now, waits = State(pauses=(due(),)), NOW, []
    pause = due()
    for _ in range(6):
        now += minutes(1)
        tried = probe(BAD, evicted_at=now - minutes(1))
        state = after(state, tried, now=now)
        (pause,) = state.pauses
        waits.append(pause.until - now)
        now = pause.until + minutes(5)
    assert waits == [minutes(m) for m in (60, 120, 240, 360, 360, 360)]
    assert pause.since == due().since
    assert pause.why == "the probe failed: Deployment of-web/web (not_ready)"


def test_a_probe_that_tells_nothing_leaves_the_pause_due():
    state = State(pauses=(due(),))
    assert after(state, probe(NEUTRAL)).pauses == state.pauses


@pytest.mark.parametrize(
    ("pause", "result"),
    [
        (due(until=NOW), GOOD),
        (due(until=None), GOOD),
        (due(until=NOW + minutes(5), by="anna"), GOOD),
        (due(POOL, "other"), GOOD),
        (due(POOL, "other"), BAD),
    ],
    ids=["it began while the probe was under way", "endless", "a person's", "another", "fails"],
)
def test_a_probe_says_nothing_about_a_pause_that_it_did_not_try(pause, result):
    state = State(pauses=(pause,))
    assert after(state, probe(result)).pauses == state.pauses


def test_a_move_that_is_no_probe_ends_no_pause():
    state = State(pauses=(due(),))
    ordinary = msgspec.structs.replace(probe(GOOD), probe=False)
    assert after(state, ordinary).pauses == state.pauses


def test_taking_a_persons_pause_away_leaves_the_failures():
    failure = Failure("Deployment apps/web", "", NOW, BAD)
    by_hand, by_itself = due(by="anna"), due()
    state = State(pauses=(by_hand, by_itself), failures=(failure,))
    without = state.without_pause(by_hand)
    assert (without.pauses, without.failures) == ((by_itself,), (failure,))
    assert without.without_pause(by_itself) == State()


@pytest.mark.parametrize("subject", ["Deployment apps/web", "apps/web"])
def test_a_pause_of_a_workload_covers_it_with_and_without_its_kind(subject):
    pause = due(PauseScope.WORKLOAD, subject)
    assert pause.covers("Deployment apps/web", "gpu")
    assert not pause.covers("Deployment apps/web-2", "gpu")


def test_pauses_of_namespaces_that_are_gone_are_forgotten():
    gone = (due(NAMESPACE, "preview-1"), due(PauseScope.WORKLOAD, "Deployment preview-1/web"))
    there = (
        due(NAMESPACE, "shop"),
        due(PauseScope.WORKLOAD, "Deployment shop/web"),
        due(POOL, "gpu"),
        due(),
    )
    state = State(pauses=(*gone, *there))
    assert without_gone(state, {"shop", "kube-system"}, NOW).pauses == there


@pytest.mark.parametrize(("days", "kept"), [(6, True), (7, False)])
def test_what_a_person_paused_may_come_back_within_a_week(days, kept):
    pause = due(NAMESPACE, "shop", since=NOW - minutes(days * 24 * 60), until=None, by="alice")
    assert without_gone(State(pauses=(pause,)), {"kube-system"}, NOW).pauses == (pause,) * kept


@pytest.mark.parametrize(("there", "kept"), [({"kube-system": {}}, 0), ({"shop": {}}, 1), ({}, 1)])
def test_a_cycle_forgets_the_pauses_of_the_namespaces_that_it_does_not_see(there, kept):
    state = State(pauses=(due(NAMESPACE, "shop"),))
    seen = snapshot([node("a")], [], load({"a": (0.1, 0.1)}), namespaces=there)
    assert len(followed_up(state, seen, POOLS).state.pauses) == kept
