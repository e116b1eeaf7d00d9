"""A move is judged by what a VerticalPodAutoscaler recommends, if desched may read it."""

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, measured
from tests.controlplane.manifests import Object, pod_spec, vertical_autoscaler
from tests.controlplane.sites import SITE, Site, Sites, evicted, refused

RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDING = f"{RBAC}/clusterrolebindings/desched-vertical-autoscalers"
SMALL = "400m"


def sized() -> Site:
    """The template of its pods requests more than any node has; the webhook makes them small."""
    site = Site("sized")
    site.node("hot", uses="2600m")
    site.node("cool")
    at_once = {"terminationGracePeriodSeconds": 0}
    site.workload("web", ("hot", "hot"), SMALL, cpu_request="5", **at_once)
    return site


@pytest.fixture(scope="module")
def sites(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    plane = running_control_plane
    with plane.prometheus() as prometheus:
        built = Sites(plane, prometheus, tmp_path_factory.mktemp("sized"))
        try:
            plane.serve_vertical_autoscalers()
            plane.create_namespace("sized")
            plane.apply(*webhook())
            plane.wait_for("small pods", lambda: requested(plane) == SMALL)
            built.build(sized())
            yield built
        finally:
            plane.reset()


def requested(plane: ControlPlane) -> str | None:
    """What a pod that is created now requests."""
    path = "/api/v1/namespaces/sized/pods?dryRun=All"
    pod = {"metadata": {"name": "any"}, "spec": pod_spec("5")}
    status, answer = plane.request("POST", path, pod)
    if status != 201:  # its ServiceAccount is not there yet
        return None
    cpu: str = answer["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return cpu


def why_web_stays(report: Object) -> set[str]:
    """Empty if a pod of it moves."""
    if report["plan"]["evictions"]:
        return set()
    return refused(report)["web"]


def test_without_a_recommendation_the_template_counts(sites: Sites) -> None:
    sites.plane.apply(vertical_autoscaler("sized", "1m", updatePolicy={"updateMode": "Off"}))

    assert why_web_stays(sites.look("sized")) == {"no_node_fits"}


@pytest.mark.parametrize(("cpu", "reasons"), [(SMALL, set()), ("4001m", {"no_node_fits"})])
def test_a_pod_moves_if_what_is_recommended_fits(sites: Sites, cpu: str, reasons: set[str]) -> None:
    sites.plane.apply(vertical_autoscaler("sized", cpu))

    assert why_web_stays(sites.look("sized")) == reasons


def test_what_is_recommended_stays_within_the_policy(sites: Sites) -> None:
    policies = [{"containerName": "*", "maxAllowed": {"cpu": SMALL}}]
    recommendation = {"resourcePolicy": {"containerPolicies": policies}}
    sites.plane.apply(vertical_autoscaler("sized", "7", **recommendation))

    assert why_web_stays(sites.look("sized")) == set()


def test_a_pod_stays_whose_vertical_autoscaler_is_not_understood(sites: Sites) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    sites.plane.apply(vertical_autoscaler("sized", SMALL, startupBoost=boost))

    report = sites.look("sized")

    assert why_web_stays(report) == {"requests_unknown"}
    details = {refusal["detail"] for refusal in report["plan"]["refusals"]}
    assert details == {"VerticalPodAutoscaler web: startupBoost"}


def test_without_the_right_the_template_counts_and_a_warning_is_logged(sites: Sites) -> None:
    sites.plane.apply(vertical_autoscaler("sized", SMALL))
    binding = sites.plane.get(BINDING)
    sites.plane.request("DELETE", BINDING)
    once = ("--once", ALONE, "--state-namespace", "sized", "--log-format", "json")

    def refused_to_read() -> bool:
        done = measured(lambda: sites.run(*once, "--output", "json", nodeSelector=f"{SITE}=sized"))
        assert done.returncode == 0, done.stderr
        return done.stderr.count("right.not_granted") == 1

    try:
        sites.plane.wait_for("a warning", refused_to_read)
        assert why_web_stays(sites.look("sized")) == {"no_node_fits"}
    finally:
        del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
        sites.plane.request("POST", f"{RBAC}/clusterrolebindings", binding)


def test_the_replacement_lands(sites: Sites) -> None:
    sites.plane.apply(vertical_autoscaler("sized", SMALL))
    sites.plane.wait_for("the right", lambda: why_web_stays(sites.look("sized")) == set())
    before = sites.where("sized", "web")

    report = sites.look("sized", "--evict")

    assert evicted(report) == ["web"]
    assert sites.landed("sized", "web", before) == ["sized-cool"]


def webhook() -> tuple[Object, Object]:
    """What the webhook of VerticalPodAutoscalers would do to the pods."""
    size = f'Object{{spec: Object.spec{{containers: [Object.spec.containers{{name: "app", \
resources: Object.spec.containers.resources{{requests: {{"cpu": "{SMALL}"}}}}}}]}}}}'
    group, name = "admissionregistration.k8s.io/v1", {"name": "sized"}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
        "operations": ["CREATE"],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "sized"}}
    policy = {
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicy",
        "metadata": name,
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": size}}
            ],
        },
    }
    binding = {
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": name,
        "spec": {"policyName": "sized"},
    }
    return policy, binding
