"""A gang on a real API server leaves as one, with the shipped rights, or not at all."""

import pytest

from desched.model.report import EvictionVerdict
from desched.model.state import SUCCESSES
from desched.plugins.gangs.keys import GangMode
from desched.plugins.gangs.plugin import Gangs
from tests.builders import house, policy, rule
from tests.controlplane.aged_cluster import AgedCluster
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import DEPLOY
from tests.controlplane.manifests import VOLCANO_GROUPS, Object, deployment, volcano_group
from tests.controlplane.test_deploy import NAMESPACE, REPLICAS, install

SIZE = 4
BY = policy(rule(), plugins=house(Gangs(GangMode.WHOLE)))


@pytest.fixture
def cluster(control_plane: ControlPlane) -> AgedCluster:
    """Four ranks on a node each, of which one is overloaded, and four larger idle nodes."""
    small, large = [f"te{i}" for i in range(1, 5)], [f"te{i}" for i in range(5, 9)]
    control_plane.add_node("te0")
    install(control_plane, "overlays/evict-without-steering")
    control_plane.wait_for_ready_pods(NAMESPACE, REPLICAS)  # off the nodes that are measured
    control_plane.add_node(*small)
    control_plane.serve(VOLCANO_GROUPS)
    control_plane.apply((DEPLOY / "pod-groups" / "volcano.yaml").read_text())
    namespace = control_plane.create_namespace()
    ranks = deployment("llama", SIZE, "2", namespace, cpu_request="2500m")
    marks = ranks["spec"]["template"]["metadata"]["annotations"]
    marks["scheduling.k8s.io/group-name"] = "llama"
    control_plane.apply(volcano_group(namespace, "llama", SIZE), ranks)
    control_plane.wait_for_ready_pods(namespace, SIZE, "app=llama")
    control_plane.add_node(*large, cpu="8")
    account = control_plane.kubeconfig_for("desched-system", "desched")
    found = AgedCluster(account, namespace, BY)
    control_plane.wait_for("settled workloads", found.is_settled)
    on = [pod.node for pod in found.members()]
    found.ratios = dict.fromkeys(["te0", *large], 0.1) | dict.fromkeys(small, 0.5) | {on[0]: 0.95}
    return found


def test_a_gang_leaves_as_one_and_is_followed_up_as_one(
    control_plane: ControlPlane, cluster: AgedCluster
) -> None:
    before = cluster.members()
    report = cluster.cycle()
    assert [o.verdict for o in report.outcomes] == [EvictionVerdict.EVICTED] * SIZE, report.plan
    namespace = before[0].namespace
    assert {e.gang for e in report.plan.evictions} == {f"gang {namespace}/llama (Volcano)"}
    assert len(report.state.in_flight) == SIZE

    old = {pod.uid for pod in before}
    hot = before[0].node
    assert hot not in {e.expected_node for e in report.plan.evictions}

    def replaced() -> bool:
        now = cluster.members()
        return len(now) == SIZE and all(p.ready and p.uid not in old for p in now)

    control_plane.wait_for("another pod for each", replaced)
    assert hot not in {pod.node for pod in cluster.members()}
    cluster.ratios = dict.fromkeys(cluster.ratios, 0.3)
    settled = cluster.cycle().settled
    assert len(settled) == SIZE
    assert {record.result for record in settled} <= SUCCESSES


def refusing(pod: str) -> list[Object]:
    """An admission policy that forbids the eviction of this pod, dry or not."""
    name = {"name": "no-eviction"}
    rules = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    return [
        kind
        | {
            "kind": "ValidatingAdmissionPolicy",
            "metadata": name,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rules]},
                "validations": [
                    {"expression": f"request.name != '{pod}'", "message": "it saves its work"}
                ],
            },
        },
        kind
        | {
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": name,
            "spec": {"policyName": name["name"], "validationActions": ["Deny"]},
        },
    ]


def test_no_pod_leaves_if_admission_refuses_one(
    control_plane: ControlPlane, cluster: AgedCluster
) -> None:
    before = cluster.members()
    third = before[2]
    control_plane.apply(*refusing(third.name))

    def refused() -> bool:
        answer = cluster.evictor.would_evict(third.ref, "to see whether the policy holds")
        return answer.verdict is EvictionVerdict.FORBIDDEN

    control_plane.wait_for("the admission policy holds", refused)
    report = cluster.cycle()
    verdicts = {outcome.pod.name: outcome.verdict for outcome in report.outcomes}
    assert verdicts.pop(third.name) is EvictionVerdict.FORBIDDEN
    assert [*verdicts.values()] == [EvictionVerdict.NOT_CONFIRMED] * (SIZE - 1)
    assert all("it saves its work" in outcome.detail for outcome in report.outcomes)
    assert report.state.in_flight == ()
    now = cluster.members()
    assert [(pod.uid, pod.deleting) for pod in now] == [(pod.uid, False) for pod in before]
