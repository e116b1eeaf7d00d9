"""What is decided from the usage of chosen pods is what is decided from that of all pods."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.decision import Decision, decide
from desched.model.cluster import Node, Pod
from desched.model.load import Measured, PodChoice, UnknownReason
from desched.model.plan import NodeClass, NodeVerdict, Plan, RefusalReason
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.planning.needed_usage import needed_pods
from desched.planning.overload import measurement
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.situation import Situation
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from tests.builders import NOW, certain, policy, rule
from tests.chosen_load import known_of
from tests.properties.test_planner import clusters
from tests.properties.test_whole_gangs import STEERED, WHOLE, drawn

slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

POLICIES = st.sampled_from(
    [
        policy(),
        policy(steering=SteeringRules(SteeringMode.ALWAYS), max_landing_risk=0.15),
        policy(max_landing_risk=0.15),
        policy(rule(Resource.MEMORY, target_ratio=0.3), rule(Resource.PODS, target_ratio=0.04)),
        policy(
            rule(Resource.CPU, low_ratio=0.1, target_ratio=0.1),
            rule(Resource.MEMORY, low_ratio=0.1, target_ratio=0.1),
            deviation=True,
        ),
        policy(min_underloaded_nodes=1),
    ]
)


@st.composite
def churning(draw: st.DrawFn) -> tuple[Snapshot, State]:
    """A cluster with pods that come and go, throttled ones, and evictions in flight."""
    seen = draw(clusters())
    quiet = draw(st.booleans())
    changed = [pod if quiet else draw(_changes(pod)) for pod in seen.cluster.pods]
    evicted = draw(st.sets(st.integers(0, len(changed)), max_size=2))
    records = (_record(pod, seen) for i, pod in enumerate(changed) if i in evicted and pod.node)
    state = State(evictions=tuple(records))
    lies = draw(st.sampled_from([True, False, False, False]))
    nodes = {
        name: {resource: draw(_bounded(load, lies=lies)) for resource, load in loads.items()}
        for name, loads in seen.load.nodes.items()
    }
    keys = [(pod.namespace, pod.name) for pod in changed]
    throttled = frozenset(
        key for i, key in enumerate(keys) if i in draw(st.sets(st.integers(0, 20)))
    )
    usage = {
        key: used
        for pod in changed
        if pod.node and (used := seen.load.pods.get(key := (pod.namespace, pod.name)))
    }
    load = replace(seen.load, nodes=nodes, pods=usage, throttled=throttled)
    return replace(seen, cluster=replace(seen.cluster, pods=tuple(changed)), load=load), state


@st.composite
def _changes(draw: st.DrawFn, pod: Pod) -> Pod:
    started_at = NOW - timedelta(seconds=draw(st.sampled_from([30, 100, 250])))
    fields: dict[str, Any] = draw(
        st.sampled_from(
            [
                *[{}] * 12,
                *[{"created_at": started_at, "started_at": started_at}] * 2,
                {"deleting": True},
                {"phase": "Succeeded"},
                {"node": "", "phase": "Pending", "ready": False},
            ]
        )
    )
    return replace(pod, **fields)


@st.composite
def _bounded(draw: st.DrawFn, load: Any, *, lies: bool) -> Any:
    """A load that bounds its pods, one that does not, or one that contradicts them."""
    if not isinstance(load, Measured):
        return load
    (level,) = load.levels
    false = replace(level, ratio=level.ratio / 10)
    true = [(level, ()), (level, (level.ratio,)), (level, (level.ratio + 0.1,))]
    level, most = draw(st.sampled_from([*true, (false, (0.0,))] if lies else true))
    return replace(load, levels=(level,), pods_ratios=most)


def _record(pod: Pod, seen: Snapshot) -> EvictionRecord:
    return EvictionRecord(
        pod.ref,
        pod.node,
        "uid-web",
        NOW - timedelta(seconds=120),
        certain(seen.cluster.nodes[-1].name),
        cpu_millicores=300.0,
        memory_bytes=2.0**30,
        replicas=3,
    )


def chosen(seen: Snapshot, by: Policy, state: State) -> Decision:
    """The decision from what the first choice and those that follow from it read."""
    pods = PodChoice()
    while True:
        found = replace(seen, load=known_of(seen.load, seen.cluster, pods))
        wanted = needed_pods(Situation.of(found, by, state))
        if not wanted - pods:
            return decide(found, by, state)
        pods |= wanted


def decided(decision: Decision) -> tuple[object, ...]:
    """All that the cycle acts on, keeps and reports, but how full single nodes are."""
    plan = replace(decision.plan, nodes=())
    verdicts = [_said(verdict, decision.plan) for verdict in decision.plan.nodes]
    return plan, verdicts, decision.settled, decision.context.state


def _said(verdict: NodeVerdict, plan: Plan) -> tuple[object, ...]:
    """What is said about a node; how full a destination is counts only if something moves."""
    overloaded = any(v.node_class is NodeClass.OVERLOADED for v in plan.nodes)
    known_as = verdict.node_class
    if not overloaded and known_as is NodeClass.UNDERLOADED:
        known_as = NodeClass.BALANCED
    found: list[object] = [verdict.node, known_as, verdict.reason, verdict.detail]
    if overloaded:
        found += [(p.highest_ratio, p.after_ratio, p.overloaded) for p in verdict.pressures]
    if verdict.node_class is NodeClass.OVERLOADED:
        found += verdict.pressures
    return tuple(found)


WORLDS = st.one_of(
    st.tuples(churning(), POLICIES),
    st.tuples(
        st.tuples(st.integers(0, 2**32).map(lambda seed: drawn(seed).seen), st.just(State())),
        st.sampled_from([WHOLE, STEERED]),
    ),
)


@slow
@given(WORLDS)
@example(((drawn(64422).seen, State()), WHOLE))  # GPUs of a gang with pods on other nodes
def test_a_decision_from_the_usage_of_needed_pods_is_that_of_all_usage(
    world: tuple[tuple[Snapshot, State], Policy],
) -> None:
    """And while a node may lose a pod, no usage or sum is looked up that was not read.

    The pasts are those of needed nodes: elsewhere they only make a forecast better.
    """
    (seen, state), by = world
    with pytest.MonkeyPatch.context() as patch:
        needed = chosen(seen, by, state)
        pasts = needed.context.book.snapshot.load.pod_pasts
        full = decide(replace(seen, load=replace(seen.load, pod_pasts=pasts)), by, state)
        if not relieves(needed):
            assert at_rest(needed, full) == at_rest(full, full)
            return
        assert decided(needed) == decided(full)
        only_what_is_read(patch)
        decide(needed.context.book.snapshot, by, state)


def relieves(decision: Decision) -> bool:
    """Whether a node may lose a pod."""
    pressure = decision.pressure
    return any(
        each.node.name not in pressure.waiting
        or pressure.waiting[each.node.name].reason is RefusalReason.POOL_SATURATED
        for each in pressure.of_class(NodeClass.OVERLOADED)
    )


def at_rest(decision: Decision, full: Decision) -> tuple[object, ...]:
    """What is decided while no node may lose a pod.

    No contradiction is looked for, and by requests alone a pod that comes or goes may hide that a
    node will be overloaded again.
    """
    contradicted = {v.node for v in full.plan.nodes if v.reason is UnknownReason.PODS_ABOVE_NODE}
    hidden = {each.node.name for each in full.pressure.sources if not each.overloaded}
    plan = decision.plan
    verdicts = [
        _said(v, plan) for v in plan.nodes if v.node not in contradicted and v.node not in hidden
    ]
    return plan.evictions, verdicts, decision.settled, decision.context.state


def only_what_is_read(patch: pytest.MonkeyPatch) -> None:
    """Let no usage be looked up that was not read."""

    def check(book: UsageBook, pod: Pod, resource: Resource) -> None:
        if pod.node and resource in (Resource.CPU, Resource.MEMORY):
            assert book.has_read_of(pod), f"{pod.name} on {pod.node} was not read"

    def measured(book: UsageBook, pod: Pod, resource: Resource) -> tuple[float, ...]:
        check(book, pod, resource)
        return lenient(book, pod, resource)

    def expected(book: UsageBook, pod: Pod, resource: Resource) -> float:
        siblings = book.snapshot.cluster.pods_by_controller
        for each in siblings.get(pod.controller, ()) if pod.controller else (pod,):
            check(book, each, resource)
        return estimate(book, pod, resource)

    def summed(node: Node, resource: Resource, usages: Any, book: UsageBook) -> Sequence[float]:
        read, pods = book.snapshot.load.pods_of, book.snapshot.cluster.pods_by_node
        if usages is None and pods.get(node.name):
            assert read is not None and node.name in read.sums, f"{node.name} has no sum"  # noqa: PT018
        return add_up(node, resource, usages, book)

    lenient, estimate, add_up = UsageBook.measured, UsageBook.expected, measurement._sums  # noqa: SLF001
    patch.setattr(measurement, "_sums", summed)
    patch.setattr(UsageBook, "measured", measured)
    patch.setattr(UsageBook, "expected", expected)


def test_some_decisions_need_only_some_pods() -> None:
    """The property above would hold for a choice of all pods."""
    found = []

    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    @given(churning(), POLICIES)
    def collect(given_world: tuple[Snapshot, State], by: Policy) -> None:
        seen, state = given_world
        decision = chosen(seen, by, state)
        read = decision.context.book.snapshot.load.pods_of or PodChoice()
        everything = all(map(read.has, seen.cluster.pods))
        found.append((not everything, bool(decision.plan.evictions)))

    collect()
    enough = [evicts for part, evicts in found if part]
    if len(enough) < len(found) / 3 or not any(enough):
        pytest.fail(f"{len(enough)} of {len(found)} decisions, {sum(enough)} with evictions")
