"""Pods of low priority burn beside a stress pod that is pinned, until their node is relieved.

Before that, its kubelet and those of others fall silent, and a node is added. Each test leaves the
pods where they are, but for the one that relieves the node.
"""

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.manifests import Object
from tests.controlplane.metrics_server import known_nodes
from tests.controlplane.replicas import SHORT_LEASE, Replica
from tests.controlplane.waiting import wait_for
from tests.nodes.lab import ADDED, NAMES, Lab, Meter
from tests.nodes.story import HOT, WORKLOAD, Story, cpu_ratio, verdict

TARGET = 0.8
POINTS = 0.02
"""By how much a figure may differ from the truth."""

HOG_MIB = 2600
"""With the others of its node it uses less than the node has, and leaves less than it must."""

STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def truth(story: Story) -> dict[str, float]:
    """How much CPU nodes and pods use before anything moves, in all of the windows."""
    story.begin()
    return story.measure()


@pytest.fixture(scope="module")
def meters() -> list[tuple[float, Meter]]:
    """One for each story so far, with the time when it began."""
    return []


@pytest.fixture(autouse=True)
def meter(lab: Lab, truth: dict[str, float], meters: list[tuple[float, Meter]]) -> Meter:
    """From the beginning of the story on."""
    del truth  # which comes first
    meters.append((time.monotonic(), lab.meter()))
    return meters[-1][1]


def window_and_truth(
    story: Story, meters: list[tuple[float, Meter]], minutes: int
) -> tuple[float, float]:
    """How busy desched says that the hot node was in a window, and how busy it was."""
    seconds = minutes * 60
    began, meter = next(each for each in meters if time.monotonic() - each[0] < seconds)
    wait_for("the window", lambda: time.monotonic() - began >= seconds, timeout=seconds)
    windows = {"cpu": [f"{minutes}m"], "memory": [f"{minutes}m"]}

    def shown() -> float | None:
        """Nothing if the newest samples are missing."""
        ratio = cpu_ratio(story.plan(windows=windows), HOT)
        return None if math.isnan(ratio) else ratio

    ratio = wait_for("a known load", shown)
    assert ratio is not None
    return ratio, meter()[HOT]


def wrong_figures(report: Object, truth: dict[str, float]) -> dict[str, tuple[float, float]]:
    """The nodes and pods whose CPU a report shows wrong, with what it shows and what is true."""
    nodes = (each["node"] for each in report["plan"]["nodes"])
    shown = {name: (cpu_ratio(report, name), truth[name]) for name in nodes}
    for each in report["plan"]["evictions"]:
        shown[each["pod"]["name"]] = (each["cpu_millicores"] / 1000, truth[each["pod"]["uid"]])
    return {name: pair for name, pair in shown.items() if not abs(pair[0] - pair[1]) <= POINTS}


def test_figures_are_those_of_the_cgroups_and_the_plan_moves_what_may_move(
    story: Story, truth: dict[str, float]
) -> None:
    assert truth[HOT] > TARGET
    report = story.plan_while_hot()
    assert wrong_figures(report, truth) == {}
    planned = report["plan"]["evictions"]
    assert {each["workload"] for each in planned} == {f"Deployment {story.namespace}/{WORKLOAD}"}
    checked = story.types("doctor", "--evict")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_metrics_server_shows_the_same_load_and_leads_to_the_same_plan(
    lab: Lab, story: Story, meter: Meter
) -> None:
    with lab.metrics_server(story.directory) as server:
        server.wait_until("it knows the nodes", lambda: known_nodes(lab.plane) == set(lab.nodes))
        windows = {"cpu": ["2m"], "memory": ["2m"]}  # the shortest that it may have
        by = {"metrics": {"type": "metrics-server"}, "windows": windows}
        report = story.plan("--wait", "2m", **by)
    assert wrong_figures(report, meter()) == {}
    planned = report["plan"]["evictions"]
    assert {each["workload"] for each in planned} == {f"Deployment {story.namespace}/{WORKLOAD}"}


def test_figures_stay_true_where_counters_begin_again(lab: Lab, story: Story) -> None:
    """The kernel ends a container that takes too much memory, and a signal one that burns."""
    greedy = story.pod("greedy", {"cpu": "1m"}, "-memory=64")
    (container,) = greedy["spec"]["containers"]
    container["resources"]["limits"] = {"memory": "32Mi"}
    story.plane.apply(greedy)
    burner = min(story.places())
    path = f"/api/v1/namespaces/{story.namespace}/pods"
    uid = story.plane.get(f"{path}/{burner}")["metadata"]["uid"]

    def ended_by() -> list[Any]:
        containers = story.plane.get(f"{path}/greedy")["status"].get("containerStatuses", ())
        return [each["lastState"].get("terminated", {}).get("reason") for each in containers]

    story.plane.wait_for("an OOM kill", lambda: ended_by() == ["OOMKilled"])
    (why,) = story.refused("greedy").values()
    assert why.startswith("not_ready")
    story.plane.delete(greedy)  # each of its starts takes CPU, perhaps at an end of the window
    meter = lab.meter()
    for process in lab.nodes[HOT].cgroup.processes_of(uid):
        if "-cpu" in Path(f"/proc/{process}/cmdline").read_text():
            os.kill(process, signal.SIGKILL)
    story.plane.wait_for("it burns again", lambda: story.restarts(burner) == 1)
    story.measure()
    report = story.plan_while_hot()
    assert wrong_figures(report, meter()) == {}
    assert {each["pod"]["name"] for each in report["plan"]["evictions"]} <= set(story.places())


class Resizable:
    """A pod whose request is changed in place."""

    def __init__(self, story: Story) -> None:
        self.name = min(story.places())
        self._plane = story.plane
        self._path = f"/api/v1/namespaces/{story.namespace}/pods/{self.name}"

    def resize(self, cpu: str) -> None:
        change = {"name": "workload", "resources": {"requests": {"cpu": cpu}}}
        body = {"spec": {"containers": [change]}}
        status, answer = self._plane.request(
            "PATCH", f"{self._path}/resize", body, content_type=STRATEGIC
        )
        assert status == 200, answer

    def waits_for(self) -> list[str]:
        """The reasons for which a resize has not ended."""
        conditions = self._plane.get(self._path)["status"]["conditions"]
        return [each.get("reason", "") for each in conditions if "Resize" in each["type"]]

    def wait_until_it_has(self, cpu: str) -> None:
        """Until the kubelet says that the resize has ended."""

        def has() -> bool:
            (status,) = self._plane.get(self._path)["status"]["containerStatuses"]
            return not self.waits_for() and status["resources"]["requests"]["cpu"] == cpu

        self._plane.wait_for(f"it requests {cpu}", has)


def test_a_pod_that_was_resized_counts_with_its_new_request_and_may_move(story: Story) -> None:
    pod = Resizable(story)
    for millicores in (120, 50):
        pod.resize(f"{millicores}m")
        pod.wait_until_it_has(f"{millicores}m")
        read = {each.name: each.scheduling.requests for each in story.snapshot().cluster.pods}
        assert read[pod.name].cpu_millicores == millicores
        assert "resize_under_way" not in str(story.refused(pod.name))


def test_a_pod_whose_resize_waits_for_room_stays_until_the_resize_is_undone(story: Story) -> None:
    pod = Resizable(story)
    pod.resize("500m")
    story.plane.wait_for("it waits for room", lambda: pod.waits_for() == ["Deferred"])
    assert story.refused(pod.name) == {pod.name: "resize_under_way: it waits for room on its node"}
    pod.resize("80m")
    pod.wait_until_it_has("80m")
    assert "resize_under_way" not in str(story.refused(pod.name))


def test_a_window_of_five_minutes_shows_the_same(
    story: Story, meters: list[tuple[float, Meter]]
) -> None:
    shown, true = window_and_truth(story, meters, 5)
    assert shown == pytest.approx(true, abs=POINTS)


def test_a_node_that_is_added_does_not_count_until_the_windows_show_it(
    lab: Lab, story: Story
) -> None:
    lab.start_node(ADDED)
    lab.wait_until_ready(ADDED)
    assert verdict(story.plan(), ADDED)["reason"] == "too_young"


def test_while_a_kubelet_evicts_for_memory_desched_takes_no_pod_from_its_node(
    story: Story,
) -> None:
    assert story.plan_while_hot()["plan"]["evictions"]
    hog = story.pod("hog", {"cpu": "100m"}, f"-memory={HOG_MIB}")
    story.plane.apply(hog)
    path = f"/api/v1/namespaces/{story.namespace}/pods/hog"

    def disrupted_by() -> list[str]:
        conditions = story.plane.get(path)["status"].get("conditions", ())
        return [each["reason"] for each in conditions if each["type"] == "DisruptionTarget"]

    evicted_by = story.plane.wait_for("an eviction", disrupted_by)
    assert evicted_by == ["TerminationByKubelet"]
    story.lab.wait_until_not_ready(HOT)
    report = story.plan()
    assert verdict(report, HOT)["reason"] == "under_pressure"
    assert report["plan"]["evictions"] == []
    assert len(story.places()) == 3
    story.lab.wait_until_ready(HOT)
    story.plane.delete(hog)


def test_no_pod_leaves_a_node_that_is_not_ready_until_a_kubelet_starts_on_it_again(
    lab: Lab, story: Story
) -> None:
    assert story.plan_while_hot()["plan"]["evictions"]
    with lab.nodes[HOT].silent_kubelet():
        lab.wait_until_not_ready(HOT)
        report = story.plan()
        assert verdict(report, HOT)["reason"] == "not_ready"
        assert report["plan"]["evictions"] == []
    lab.nodes[HOT].kill("kubelet")
    lab.wait_until_ready(HOT)


def classes(report: Object) -> set[str]:
    return {each["node_class"] for each in report["plan"]["nodes"]}


@contextmanager
def silent_kubelets(lab: Lab, *names: str) -> Iterator[None]:
    """Returns when their nodes are not Ready, and leaves when they are."""
    with ExitStack() as silent:
        for name in names:
            silent.enter_context(lab.nodes[name].silent_kubelet())
        for name in names:
            lab.wait_until_not_ready(name)
        yield
    for name in names:
        lab.wait_until_ready(name)


def held(service: Replica) -> list[Object]:
    """The cycles that the incident has held so far, although a node was overloaded."""
    return [
        cycle
        for cycle in service.cycles
        if cycle.get("hold") == "cluster_in_trouble" and cycle.get("overloaded") == [HOT]
    ]


def test_after_half_of_the_kubelets_were_silent_two_services_relieve_the_node_by_turns(
    lab: Lab, story: Story
) -> None:
    with ExitStack() as both:
        with silent_kubelets(lab, *(name for name in NAMES if name != HOT)):
            first = both.enter_context(story.service("first", *SHORT_LEASE))
            first.wait_to_lead()
            second = both.enter_context(story.service("second", *SHORT_LEASE))
            second.wait_until("it waits", lambda: second.events("service.started"))
            first.wait_until("held cycles", lambda: len(held(first)) >= 2)
            assert story.evictions() == []
            assert held(first)[0]["hold_detail"].startswith("2 of 4 nodes are in trouble")
        first.wait_until("it evicts", story.evictions)
        first.signal(signal.SIGKILL)
        truth: dict[str, float] = {}

        def stays_relieved() -> bool:
            """One pod may just do, until the next minute: then a second one leaves."""
            second.wait_until("it is relieved", partial(story.is_relieved, second))
            truth.update(story.measure())
            return story.is_relieved(second)

        wait_for("it stays relieved", stays_relieved, timeout=600)
    assert truth[HOT] < TARGET

    def with_all_loads() -> Object | None:
        """Nothing if the newest samples of a node are missing."""
        report = story.plan()
        return None if "unknown" in classes(report) else report

    report = wait_for("all loads", with_all_loads)
    assert report is not None
    assert wrong_figures(report, truth) == {}
    assert classes(report).isdisjoint({"overloaded", "out_of_scope"})
    evicted, places = story.evictions(), story.places()
    assert 1 <= len(evicted) <= 2
    assert len(places) == 3
    assert places.keys().isdisjoint(evicted)
    assert sum(node != HOT for node in places.values()) == len(evicted)


def test_a_window_of_fifteen_minutes_shows_what_was_before_the_relief_too(
    story: Story, meters: list[tuple[float, Meter]]
) -> None:
    shown, true = window_and_truth(story, meters, 15)
    assert shown == pytest.approx(true, abs=POINTS)
