"""Explanations agree with the plan that they explain."""

from functools import cache

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from desched.decision import Decision, decide
from desched.model.cluster import Pod
from desched.model.plan import NodeClass
from desched.policy_file.loading import parse_policy
from desched.views.explained.explain import explain
from desched.views.explained.subject import Subject, SubjectKind
from desched.views.explained.values import Explanation, PodExplanation, PodOutcome, RuleOutcome
from desched.views.explanation import explanation_blocks
from desched.views.rendering import rendered
from tests.properties.outputs import FORMATS, harmless
from tests.properties.rich_clusters import POLICY, RichCluster

BY = parse_policy(*POLICY).policy
seeds = st.integers(0, 10**6)
FEW = settings().max_examples // 2
"""Each takes long."""

slow = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=FEW)


@cache
def decision(seed: int) -> Decision:
    cluster = RichCluster(seed)
    return decide(cluster.snapshot(), BY, cluster.state())


def about(pod: Pod, seed: int) -> PodExplanation:
    subject = Subject(SubjectKind.POD, pod.name, pod.namespace)
    found = explain(subject, decision(seed), "test").pod
    assert found is not None
    return found


def all_answers(seed: int) -> list[Explanation]:
    cluster = decision(seed).context.cluster
    subjects = [
        *(Subject(SubjectKind.NODE, node.name) for node in cluster.nodes),
        *(Subject(SubjectKind.POD, pod.name, pod.namespace) for pod in cluster.pods),
        *(
            Subject(SubjectKind.WORKLOAD, each.name, each.namespace)
            for each in cluster.workloads.values()
        ),
    ]
    return [explain(subject, decision(seed), "test") for subject in subjects]


@slow
@given(seeds)
def test_the_first_rule_that_refuses_is_the_reason_of_the_plan(seed: int) -> None:
    made = decision(seed)
    refusals = {refusal.pod: refusal for refusal in made.plan.refusals}
    for pod in made.context.cluster.pods:
        found = about(pod, seed)
        refused = [rule for rule in found.rules if rule.outcome is RuleOutcome.REFUSED]
        if pod.ref in refusals and refused:
            plain = refusals[pod.ref].reason, refusals[pod.ref].detail
            assert plain == (refused[0].reason, refused[0].detail)
        if refused or pod.ref in refusals:
            assert found.summary.outcome is PodOutcome.STAYS
            assert found.changes
        if pod.ref in {each.pod for each in made.plan.evictions}:
            assert found.summary.outcome is PodOutcome.EVICTED
            assert not refused
            assert not found.changes


@slow
@given(seeds)
@example(190)  # in a saturated pool
@example(939)  # and other load stays there
def test_the_first_move_of_a_plan_lands_where_the_pod_would_alone(seed: int) -> None:
    made = decision(seed)
    for eviction in made.plan.evictions[:1]:
        (pod,) = (p for p in made.context.cluster.pods if p.ref == eviction.pod)
        placement = about(pod, seed).placement
        assert placement is not None
        assert placement.expected_on == eviction.expected_on
        assert placement.suitable == eviction.destinations
        assert placement.forecast is not None
        assert placement.forecast.risk == eviction.landing_risk
        assert placement.forecast.steered == eviction.steered


@slow
@given(seeds)
def test_every_node_is_suitable_or_excluded_for_a_reason(seed: int) -> None:
    for pod in decision(seed).context.cluster.pods:
        placement = about(pod, seed).placement
        if placement is None:
            continue
        excluded = sum(placement.excluded.values())
        assert placement.suitable + excluded >= placement.nodes
        assert (placement.reason is None) == bool(placement.expected_on)
        forecast = placement.forecast
        if forecast is not None:
            assert 0 <= forecast.back_ratio + forecast.harm_ratio <= 1 + 1e-9
            for chance in forecast.nodes:
                if pod.scheduler == "default-scheduler":
                    assert chance.score == sum(chance.by_plugin.values())


@slow
@given(seeds)
def test_what_stays_and_what_leaves_is_all_that_a_node_has(seed: int) -> None:
    made = decision(seed)
    for node in made.context.cluster.nodes:
        found = explain(Subject(SubjectKind.NODE, node.name), made, "test").node
        assert found is not None
        evicted = [each for each in found.pods if each.outcome is PodOutcome.EVICTED]
        assert len(evicted) == sum(each.node == node.name for each in made.plan.evictions)
        if found.verdict.node_class is NodeClass.OVERLOADED:
            for load in found.loads:
                staying = sum(each.pods for each in load.staying)
                assert load.excess_ratio is None or staying + len(evicted) == len(found.pods)


@settings(slow, max_examples=FEW // 3)
@given(seeds)
def test_every_answer_can_be_shown(seed: int) -> None:
    for answer in all_answers(seed):
        for form in FORMATS:
            harmless(rendered(answer, explanation_blocks(answer), form))
        assert msgspec.json.encode(answer)
