"""Snapshots of a live cluster: the same plan and the same explanations from the file."""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from desched.bootstrap import look
from desched.bootstrap.look import LiveCluster
from desched.decision import decide
from desched.lab.clock import VirtualClock
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.observation import observe
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy, read_policy
from desched.ports import ChoosePods, ClusterReader, LoadReader, PodToRead, all_pods
from desched.service.process.clock import SystemClock
from desched.settings import load_settings
from desched.snapshot_file.document import decode, encode
from desched.snapshot_file.load_check import own_policy
from desched.snapshot_file.report import report_of
from desched.snapshot_file.taken import Redaction, take_snapshot
from tests.controlplane import forks
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import COMMAND, measured
from tests.controlplane.manifests import Object
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.sites import app_of
from tests.controlplane.test_scenario import DEMO, HOT, LOW, Scenario, guards

HUSHED = "hush-hush"
IMAGE = "images.test/hushed:1"
"""A value of the environment, which no snapshot may have."""


class Site(Scenario):
    """The guarded scenario with the rights of a dry run, and desched's commands on it."""

    def install_permissions(self, folder: str = "base") -> None:
        """Those of the dry run that `deploy/base` installs."""
        super().install_permissions(folder)

    def answer(self, command: str, *flags: str) -> Any:
        """The JSON of a command about the live cluster."""
        arguments = self.arguments(*flags, "--output", "json")[len(COMMAND) :]
        done = measured(lambda: forks.run([command, *arguments]))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def taken(self, name: str, *flags: str) -> Path:
        """A snapshot file that has enough measurements."""
        path = self.directory / name
        arguments = self.arguments("-o", str(path), *flags)[len(COMMAND) :]

        def take() -> Any:
            done = forks.run(["snapshot", *arguments])
            assert done.returncode == 0, done.stderr
            return forks.run(["plan", "--snapshot", str(path)])

        measured(take)
        return path


def from_file(command: str, path: Path, *words: str) -> Any:
    done = forks.run([command, *words, "--snapshot", str(path), "-o", "json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def evicting(site: Site, look: Callable[[], Any]) -> Any:
    """The first report that evicts: a machine that stalls sees less load in windows of seconds."""

    def found() -> Any:
        report = look()
        return report if report["plan"]["evictions"] else None

    return site.plane.wait_for("a plan that evicts", found)


def decisions(report: Object) -> tuple[list[tuple[str, str]], Counter[tuple[str, str]]]:
    """What a plan decides, without the measured numbers and what hangs on them.

    Which of equal pods moves, and to which of equal nodes, hangs on the last digit of a rate.
    """
    plan = report["plan"]
    return (
        [(each["workload"], each["node"]) for each in plan["evictions"]],
        Counter((app_of(each["pod"]), each["reason"]) for each in plan["refusals"]),
    )


@pytest.fixture
def site(control_plane: ControlPlane, prometheus: PrometheusServer, tmp_path: Path) -> Site:
    made = Site(control_plane, prometheus, tmp_path)
    with_environment = guards()
    for manifest in with_environment:
        if manifest["kind"] == "Deployment":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            container["env"] = [{"name": "TOKEN", "value": HUSHED}]
            container["image"] = IMAGE
    made.build(None, *with_environment)
    return made


def test_a_snapshot_of_a_live_cluster_gives_its_plan_and_its_explanations(site: Site) -> None:
    path = site.directory / "now.snapshot"
    live = evicting(site, lambda: site.answer("plan"))
    planned = evicting(site, lambda: from_file("plan", site.taken(path.name)))

    assert decisions(planned) == decisions(live)
    assert [each["workload"] for each in live["plan"]["evictions"]] == [f"Deployment {DEMO}/{LOW}"]

    node = from_file("explain", path, f"node/{HOT}")["node"]
    cpu = next(each for each in node["loads"] if each["resource"] == "cpu")
    assert cpu["pods_ratio"] == pytest.approx(0.975, abs=0.1)
    assert 0 <= cpu["age_seconds"] < 60
    outcomes = {each["pod"]["name"].rsplit("-", 2)[0]: each["reason"] for each in node["pods"]}
    assert outcomes["payments"] == "priority_threshold"
    assert node["pods"][0]["pod"]["name"] == "stress"
    assert site.answer("explain", "node", HOT)["node"]["verdict"]["node_class"] == "overloaded"

    (payments,) = (p["pod"]["name"] for p in node["pods"] if "payments" in p["pod"]["name"])
    pod = from_file("explain", path, "pod", f"{DEMO}/{payments}")["pod"]
    refused = [each["reason"] for each in pod["rules"] if each["outcome"] == "refused"]
    assert refused == ["priority_threshold", "single_replica"]
    assert pod["placement"]["suitable"] == 4
    assert "priorityThreshold" in pod["changes"][0]
    live_pod = site.answer("explain", "pod", f"{DEMO}/{payments}")["pod"]
    assert (live_pod["rules"], live_pod["changes"]) == (pod["rules"], pod["changes"])

    simulated = forks.run(["simulate", str(path), "--hours", "0.5", "-o", "json"])
    assert simulated.returncode == 0, simulated.stderr
    (figures,) = json.loads(simulated.stdout)["policies"]
    assert figures["with_policy"]["node_minutes"] < figures["without"]["node_minutes"] == 30


def test_a_snapshot_has_neither_environment_nor_images_nor_addresses(site: Site) -> None:
    text = gzip.decompress(site.taken("now.snapshot").read_bytes()).decode()

    pods = site.plane.items("/api/v1/pods")
    addresses = {
        each["address"]
        for node in site.plane.items("/api/v1/nodes")
        for each in node["status"].get("addresses", ())
        if each["address"] != node["metadata"]["name"]
    }
    assert IMAGE in {c["image"] for pod in pods for c in pod["spec"]["containers"]}
    for secret in (HUSHED, IMAGE, *addresses):
        assert secret not in text
    assert HOT in text

    hidden = gzip.decompress(site.taken("hidden.snapshot", "--hash-names").read_bytes()).decode()
    for name in (HOT, LOW, "payments", *(pod["metadata"]["name"] for pod in pods)):
        assert f'"{name}"' not in hidden


class Once:
    """Reads the live cluster once; each further read has the same answer."""

    def __init__(self, cluster: ClusterReader, load: LoadReader) -> None:
        self._cluster, self._load = cluster, load
        self._state: ClusterState | None = None
        self._found: ClusterLoad | None = None

    def read_cluster(self, *_: Sequence[str]) -> ClusterState:
        self._state = self._state or self._cluster.read_cluster()
        return self._state

    def read_around(self, pods: Sequence[PodToRead]) -> Any:
        raise AssertionError(f"a snapshot looks at no single pod: {pods}")

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        self._found = self._found or self._load.read_load(cluster, policy, choose)
        return self._found


def test_of_the_same_data_the_plan_is_the_same_bit_for_bit(site: Site) -> None:
    path = site.policy()
    policy_text = read_policy(path)
    policy = parse_policy(*policy_text)
    settings = load_settings({"kubeconfig": str(site.kubeconfig), "policy": str(path)})
    live: LiveCluster = look._look(settings, policy, policy_text, SystemClock())  # noqa: SLF001  (its world)
    once, clock = Once(live.world.cluster, live.world.load), VirtualClock(live.world.clock.now())
    world = live.world._replace(cluster=once, load=once, clock=clock)

    taken = take_snapshot(world, policy_text, live.state, live.target, Redaction())
    content = decode(encode(taken), "file")

    plan = decide(observe(world, policy.policy), policy.policy, live.state).plan
    assert report_of(content, own_policy(content, "file"), clock).plan == plan
    assert plan.nodes
