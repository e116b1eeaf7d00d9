"""A KubeSchedulerConfiguration as it is, in the policy."""

from typing import Any

import pytest
import yaml

from desched.model.cluster import SpreadConstraint
from desched.policy.schedulers import (
    SchedulerProfile,
    SchedulerRules,
    ScoreWeights,
    ScoringStrategy,
)
from tests.unit.policy_file.published import published, refusal, resolved, warnings

HEAD: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
NOT_KNOWN = "is not known to the forecast of landings, which is as if it were not there."


def section(*profiles: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"scheduler": {"configuration": {**HEAD, "profiles": [*profiles], **keys}}}


def rules_by(*profiles: dict[str, Any], **keys: Any) -> SchedulerRules:
    return resolved(load_aware=section(*profiles, **keys)).scheduler


def noted_by(*profiles: dict[str, Any], **keys: Any) -> str:
    return warnings(load_aware=section(*profiles, **keys))


def refused_by(*profiles: dict[str, Any], **keys: Any) -> str:
    return refusal(published(load_aware=section(*profiles, **keys)))


def with_args(plugin: str, **args: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": plugin, "args": args}]}


def with_plugins(**points: Any) -> dict[str, Any]:
    return {"plugins": points}


AS_IT_IS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 16
leaderElection: {leaderElect: true}
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
podMaxBackoffSeconds: 30
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled: [{name: ImageLocality}, {name: PodTopologySpread}]
      enabled: [{name: NodeResourcesFit, weight: 5}, {name: PodTopologySpread, weight: 7}]
  pluginConfig:
  - name: PodTopologySpread
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: PodTopologySpreadArgs
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
      - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 3,
         nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, matchLabelKeys: [version]}
- schedulerName: packing
  plugins:
    multiPoint: {enabled: [{name: TaintToleration}, {name: NodeAffinity, weight: 9}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory}]}}
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 10}}
"""  # noqa: E501  (as people write it)


def test_a_configuration_is_read_as_it_is_by_profiles() -> None:
    as_it_is = {"scheduler": {"configuration": yaml.safe_load(AS_IT_IS)}}
    rules = resolved(load_aware=as_it_is).scheduler
    assert rules.strategy is ScoringStrategy.LEAST_ALLOCATED
    assert rules.weights == ScoreWeights(
        image_locality=0, node_resources_fit=5, pod_topology_spread=7
    )
    assert rules.default_spread == (
        SpreadConstraint("kubernetes.io/hostname", 1, hard=True, selector=None),
        SpreadConstraint(
            "zone",
            2,
            hard=False,
            selector=None,
            min_domains=3,
            honors_affinity=False,
            honors_taints=True,
            match_label_keys=("version",),
        ),
    )
    packing = rules.others["packing"]
    assert packing.profile is SchedulerProfile.KUBE_SCHEDULER
    assert packing.strategy is ScoringStrategy.MOST_ALLOCATED
    # A weight that is not written is 1, also of a plugin whose default is another.
    assert packing.weights == ScoreWeights(taint_toleration=1, node_affinity=9)
    assert packing.default_spread is None
    assert "scheduler.configuration" not in warnings(load_aware=as_it_is)


@pytest.mark.parametrize(
    ("points", "weights"),
    [
        ({}, ScoreWeights()),
        (
            {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}]}},
            ScoreWeights(0, 1, 0, 0, 0, 0, 0),
        ),
        (
            {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "TaintToleration"}]}},
            ScoreWeights(1, 0, 0, 0, 0, 0, 0),
        ),
        (
            {
                "multiPoint": {"enabled": [{"name": "InterPodAffinity", "weight": 4}]},
                "score": {"enabled": [{"name": "InterPodAffinity", "weight": 6}]},
            },
            ScoreWeights(inter_pod_affinity=6),
        ),
        ({"preScore": {"disabled": [{"name": "ImageLocality"}]}}, ScoreWeights()),
    ],
)
def test_plugins_count_as_the_scheduler_merges_them(
    points: dict[str, Any], weights: ScoreWeights
) -> None:
    assert rules_by(with_plugins(**points)).weights == weights


def test_without_profiles_it_is_the_default_scheduler() -> None:
    assert rules_by() == SchedulerRules()


def test_a_second_scheduler_alone_leaves_the_default_one() -> None:
    configuration = {**HEAD, "profiles": [{"schedulerName": "second"}]}
    written = {"configuration": configuration, "strategy": "MostAllocated"}
    rules = resolved(load_aware={"scheduler": written}).scheduler
    assert rules.strategy is ScoringStrategy.MOST_ALLOCATED
    assert rules.known("second") is not None


def test_constraints_of_the_system_are_those_of_the_system() -> None:
    assert rules_by(with_args("PodTopologySpread", defaultingType="System")).default_spread is None
    assert rules_by(with_args("PodTopologySpread", defaultingType="List")).default_spread == ()


RATIO = {
    "type": "RequestedToCapacityRatio",
    "requestedToCapacityRatio": {
        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    },
}


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            with_plugins(multiPoint={"enabled": [{"name": "NodeResourcesFit"}, {"name": "Own"}]}),
            f"profiles[0].plugins.multiPoint.enabled[1]: Own {NOT_KNOWN}",
        ),
        (
            with_plugins(score={"enabled": [{"name": "DynamicResources", "weight": 4}]}),
            f"plugins.score.enabled[0]: DynamicResources {NOT_KNOWN}",
        ),
        (
            with_plugins(filter={"disabled": [{"name": "PodTopologySpread"}]}),
            "plugins: has no filter PodTopologySpread, which desched applies all the same.",
        ),
        (
            with_args("NodeResourcesFit", scoringStrategy=RATIO),
            (
                "scoringStrategy.type: found RequestedToCapacityRatio, which the forecast of "
                "landings takes for MostAllocated."
            ),
        ),
        (
            with_args(
                "NodeResourcesFit",
                scoringStrategy={"resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]},
            ),
            "scoringStrategy.resources: counts in the forecast of landings as CPU and memory with",
        ),
        (
            with_args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}]),
            "args.resources: counts in the forecast of landings as CPU and memory with",
        ),
        (
            with_args("NodeResourcesFit", ignoredResources=["example.com/x"]),
            f"args.ignoredResources: of NodeResourcesFit {NOT_KNOWN}",
        ),
        (
            with_args("InterPodAffinity", hardPodAffinityWeight=5),
            f"args.hardPodAffinityWeight: of InterPodAffinity {NOT_KNOWN}",
        ),
        (with_args("NodeAffinity", addedAffinity={"x": 1}), f"of NodeAffinity {NOT_KNOWN}"),
        (with_args("Own", x=1), f"pluginConfig[0].args.x: of Own {NOT_KNOWN}"),
        ({"percentageOfNodesToScore": 90}, "profiles[0].percentageOfNodesToScore: has no effect"),
        ({"futureKey": 1}, f"profiles[0].futureKey: {NOT_KNOWN}"),
        (with_args("PodTopologySpread", futureKey=1), f"args.futureKey: {NOT_KNOWN}"),
    ],
)
def test_what_the_forecast_does_not_know_is_named(profile: dict[str, Any], said: str) -> None:
    noted = noted_by(profile)
    assert said in noted
    assert noted.count("scheduler.configuration") == 1


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"extenders": [{"urlPrefix": "http://x"}]}, f"extenders[0]: {NOT_KNOWN}"),
        ({"percentageOfNodesToScore": 90}, "configuration.percentageOfNodesToScore: has no effect"),
        ({"futureKey": {}}, f"configuration.futureKey: {NOT_KNOWN}"),
    ],
)
def test_what_is_not_known_beside_profiles_is_named(keys: dict[str, Any], said: str) -> None:
    assert said in noted_by(**keys)


def test_arguments_that_change_nothing_are_not_noted() -> None:
    profile = {
        "pluginConfig": [
            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1}},
            {"name": "NodeAffinity", "args": {"kind": "NodeAffinityArgs"}},
            {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 600}},
            {"name": "ImageLocality"},
        ]
    }
    assert "scheduler.configuration" not in noted_by(profile)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"kind": "DeschedulerPolicy"}, "allowed is kubescheduler.config.k8s.io/v1 or"),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1alpha1"}, "allowed is"),
        ({"profiles": {}}, "is not as in a KubeSchedulerConfiguration: Expected `array`"),
        ({"profiles": [{}, {}]}, 'profiles[1].schedulerName: is the second of "default-scheduler"'),
        (
            {"profiles": [with_args("PodTopologySpread", defaultConstraints=[{"maxSkew": 1}])]},
            "pluginConfig[0].args: is not as in a KubeSchedulerConfiguration: Object missing",
        ),
        (
            {
                "profiles": [
                    with_args(
                        "PodTopologySpread",
                        defaultConstraints=[
                            {
                                "maxSkew": 1,
                                "topologyKey": "zone",
                                "whenUnsatisfiable": "DoNotSchedule",
                            }
                        ],
                    )
                ]
            },
            "args.defaultConstraints: requires defaultingType: List.",
        ),
        (
            {
                "profiles": [
                    with_plugins(score={"enabled": [{"name": "NodeAffinity", "weight": -1}]})
                ]
            },
            "enabled[0]: found -1, allowed is a weight from 0 to 1000.",
        ),
    ],
)
def test_what_no_scheduler_starts_with_is_refused(keys: dict[str, Any], said: str) -> None:
    assert said in refused_by(**keys)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("strategy", "MostAllocated"),
        ("weights", {"ImageLocality": 0}),
        ("defaultConstraints", []),
        ("others", {"second": {"profile": "KubeScheduler"}}),
    ],
)
def test_nothing_is_said_twice(key: str, value: object) -> None:
    configuration = {**HEAD, "profiles": [{}, {"schedulerName": "second"}]}
    document = published(load_aware={"scheduler": {"configuration": configuration, key: value}})
    assert f"scheduler.{key}" in refusal(document)
    assert "is in the configuration, too; remove one of them." in refusal(document)
