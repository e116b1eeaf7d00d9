"""Odd objects that a real API server takes: each has its reason, and none gets to a terminal."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.controlplane.binaries import find_or_build
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, measured
from tests.controlplane.manifests import Object, pod_spec, usage
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.sites import SITE, Site, Sites
from tests.controlplane.waiting import wait_for
from tests.properties.mutations import STEERING_TEXTS
from tests.properties.outputs import harmless
from tests.properties.test_fuzzed_queries import ADVERSARIAL_VALUES
from tests.unit.adapters.prometheus.test_queries import every_query

ODD = "odd"
OTHERS = "o" * 63
HOT = f"{ODD}-{'h' * 249}"
HOSTILE = f"<script>alert(1)</script>{''.join(STEERING_TEXTS)}"
LONG_APP = "a" * 63


def running(name: str, **metadata: Any) -> Object:
    """A pod on the hot node that nobody scheduled."""
    annotations = usage("20m") | {"desched.io/note": HOSTILE, "odd.example/x": HOSTILE * 500}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": OTHERS,
            "labels": {"app": name[:63]},
            "annotations": annotations,
            **metadata,
        },
        "spec": pod_spec(nodeName=HOT),
    }


def replica_set(name: str) -> Object:
    pod = running(name)
    labelled = {key: pod["metadata"][key] for key in ("labels", "annotations")}
    on_hot = pod_spec(nodeSelector={"kubernetes.io/hostname": "hot"})
    template = {"metadata": labelled, "spec": on_hot}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": OTHERS},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def owner(kind: str, name: str, uid: str, api_version: str = "apps/v1") -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def budget(name: str, selector: Object) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": OTHERS},
        "spec": {"minAvailable": "100%", "selector": selector},
    }


def odd() -> Site:
    """One workload that may move, and beside it what may not, for the oddest reasons."""
    site = Site(ODD)
    site.node("h" * 249, uses="2500m", labels={"kubernetes.io/hostname": "hot"})
    site.node("cool1", "cool2")
    site.workload(LONG_APP, ("h" * 249, "cool1"), "700m", cpu_request="100m")
    site.workload("shy", ("h" * 249, "cool2"), "100m", cpu_request="100m")
    return site


@pytest.fixture
def sites(control_plane: ControlPlane, prometheus: PrometheusServer, tmp_path: Path) -> Sites:
    control_plane.create_namespace(OTHERS)
    found = Sites(control_plane, prometheus, tmp_path)
    found.build(odd())
    add_oddities(control_plane)
    return found


def add_oddities(plane: ControlPlane) -> None:
    """As JSON, for kubectl would not let control characters through."""
    unknown = owner(HOSTILE, HOSTILE, HOSTILE, "odd.example/v1")
    pods = f"/api/v1/namespaces/{OTHERS}/pods"
    sets = f"/apis/apps/v1/namespaces/{OTHERS}/replicasets"
    budgets = f"/apis/policy/v1/namespaces/{OTHERS}/poddisruptionbudgets"
    for path, manifest in (
        (pods, running("b" * 253)),
        (pods, running("strange", ownerReferences=[unknown])),
        *((sets, replica_set(name)) for name in ("chicken", "egg", "guarded")),
        (budgets, budget("all", {})),
        (budgets, budget("some", {"matchLabels": {"app": "guarded"}})),
    ):
        status, answer = plane.request("POST", path, manifest)
        assert status == 201, answer
    for pod in plane.pods(ODD, "app=shy"):
        annotate(plane, pod["metadata"]["name"], {"desched.io/evict": HOSTILE * 500})
    plane.wait_for_ready_pods(OTHERS, 5)
    let_own_each_other(plane, "chicken", "egg")


def annotate(plane: ControlPlane, pod: str, annotations: Object) -> None:
    path = f"/api/v1/namespaces/{ODD}/pods/{pod}"
    status, answer = plane.request("PATCH", path, {"metadata": {"annotations": annotations}})
    assert status == 200, answer


def let_own_each_other(plane: ControlPlane, *names: str) -> None:
    path = f"/apis/apps/v1/namespaces/{OTHERS}/replicasets"
    uids = {name: plane.get(f"{path}/{name}")["metadata"]["uid"] for name in names}
    for name, other in zip(names, reversed(names), strict=True):
        owners = {"metadata": {"ownerReferences": [owner("ReplicaSet", other, uids[other])]}}
        status, answer = plane.request("PATCH", f"{path}/{name}", owners)
        assert status == 200, answer


def reasons(report: Object) -> dict[str, str]:
    """The reason of each refusal by the beginning of the pod's name."""
    return {r["pod"]["name"].split("-")[0][:9]: r["reason"] for r in report["plan"]["refusals"]}


def texts_of_events(plane: ControlPlane) -> Iterator[str]:
    for event in plane.items("/apis/events.k8s.io/v1/events"):
        if event["reportingController"] == "desched":
            yield event["note"]


def test_odd_objects_stay_for_their_reasons_and_no_output_obeys_them(sites: Sites) -> None:
    plane = sites.plane
    planned = sites.look(ODD)
    assert reasons(planned) == {
        "shy": "opted_out",
        "b" * 9: "bare_pod",
        "strange": "owner_not_understood",
        "chicken": "owner_not_understood",
        "egg": "owner_not_understood",
        "guarded": "several_budgets",
    }
    assert [e["workload"] for e in planned["plan"]["evictions"]] == [f"Deployment {ODD}/{LONG_APP}"]
    assert max(len(r["detail"]) for r in planned["plan"]["refusals"]) <= 300

    flags = ("--once", ALONE, "--state-namespace", ODD, "--log-format", "console")
    seen: list[CompletedProcess[str]] = []

    def evicted() -> bool:
        """A busy machine may not have measured the node in time."""
        seen.append(sites.run(*flags, "--evict", nodeSelector=f"{SITE}={ODD}"))
        return "evicted: The pod is leaving" in seen[-1].stdout

    wait_for("an eviction", evicted, diagnosis=lambda: str(seen[-1]))
    acted = seen[-1]
    assert acted.returncode == 0, acted.stderr
    raw_json = measured(lambda: sites.run(*flags, "--output", "json", nodeSelector=f"{SITE}={ODD}"))
    assert json.loads(raw_json.stdout)["state"]["evictions"]
    status = [
        sites.command("status", "--state-namespace", ODD, "--output", form).stdout
        for form in ("table", "json")
    ]
    notes = list(texts_of_events(plane))
    assert len(notes) == 2
    outputs = (acted.stdout, acted.stderr, raw_json.stdout, raw_json.stderr, *status, *notes)
    for text in outputs:
        harmless(text)
    assert r"\x1b[2J" in acted.stdout


@pytest.mark.usefixtures("binaries")
def test_prometheus_understands_every_query_whatever_a_label_holds(tmp_path: Path) -> None:
    values = [v for v in ADVERSARIAL_VALUES if len(v) < 500]
    queries = [query for value in values for query in every_query({"cluster": value})]
    rules = [{"record": f"r{i}", "expr": query} for i, query in enumerate(queries)]
    groups = {"groups": [{"name": "queries", "rules": rules}]}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(groups, ensure_ascii=False))
    promtool = find_or_build(["promtool"])["promtool"]
    checked = subprocess.run(
        [promtool, "check", "rules", "--lint=none", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout
