"""GPUs as people see them: in reports, pages and explanations."""

from typing import Any

import pytest
from msgspec.structs import replace

from desched.cycle import planned_report
from desched.cycle_report import CycleInfo
from desched.decision import decide
from desched.lab.clock import VirtualClock
from desched.model.cluster import PodRef
from desched.model.load import ClusterLoad
from desched.model.plan import RefusalReason
from desched.model.report import CycleReport, Mode
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.plugins.gpus.facts import (
    ClosestNode,
    ClusterGpus,
    GpuAnswer,
    GpusLeftOut,
    GpuWait,
    PodInTheWay,
)
from desched.plugins.gpus.gpu_view import GpuView, describe_wait
from desched.views.cycle import CycleView
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explained.values import Explanation
from desched.views.explanation import explanation_blocks
from desched.views.pages.cycle_page import cycle_page
from tests.builders import NOW, load, node, policy, snapshot, workload
from tests.shown import shown, text_of
from tests.unit.plugins.gpus.gpu_cluster import gpu_node, gpu_pod

RACK = "topology.kubernetes.io/rack"
WORKLOADS = [workload("web", replicas=40), workload("train", 1, survives_disruption=False)]
NODES = [gpu_node(f"g{i}", labels={RACK: f"r{i // 2}"}) for i in range(4)]
PODS = [
    *(gpu_pod(f"a{i}", on="g0") for i in range(2)),
    gpu_pod("train-1", on="g0", of="train"),
    *(gpu_pod(f"b{i}-{on}", on=on) for on in ("g1", "g2", "g3") for i in range(4)),
    gpu_pod("large", gpus=8, phase="Pending", unschedulable=True),
]


def seen(nodes: Any = NODES, pods: Any = PODS) -> Snapshot:
    used: ClusterLoad = load(
        {each.name: (0.1, 0.1) for each in nodes}, {each.name: (0.1, 0.1) for each in pods}
    )
    return snapshot(nodes, pods, used, WORKLOADS)


def report(of: Snapshot) -> CycleReport:
    info = CycleInfo(1, Mode.DRY_RUN, "the lab")
    return planned_report(of, policy(), State(), info, VirtualClock(NOW))


def measured() -> ClusterGpus:
    gpus = ClusterGpus.of(report(seen()).facts)
    assert gpus is not None
    return gpus


def test_a_plan_shows_what_is_idle_who_waits_and_which_node_is_closest() -> None:
    text = " ".join(shown(report(seen())).split())

    assert "17 of 32 GPUs are idle; places for 1/2/4/8 GPUs: 17/8/4/0." in text
    assert "14 of 15 pods with GPUs may move; the others: 1 job_counts_eviction." in text
    assert f"{RACK}=r0: 9 of 16 idle" in text
    assert (
        "apps/large waits for 8 GPUs (nvidia.com/gpu) on one node; g0 is closest: 3 pods would "
        "leave, 2 may, apps/train-1 not: job_counts_eviction." in text
    )


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_cluster_without_gpus_shows_nothing_of_it(form: Any) -> None:
    found = report(seen([node("a")], []))

    assert ClusterGpus.of(found.facts) is None
    text = shown(found, form).lower()
    assert "idle gpu" not in text
    assert "places" not in text
    assert "<h2>GPUs" not in cycle_page(CycleView(found))


def test_pods_that_wait_where_no_node_has_gpus_are_shown() -> None:
    text = " ".join(shown(report(seen([node("a")], PODS[-1:]))).split())

    assert "No node has any." in text
    assert "apps/large waits for 8 GPUs (nvidia.com/gpu) on one node: No node" in text


def test_a_page_maps_idle_gpus_by_domain_and_node() -> None:
    html = cycle_page(CycleView(report(seen())))

    rows = html.partition('<table class="map" id="gpus">')[2].partition("</table>")[0]
    assert rows.index(f"{RACK}=r0") < rows.index("g0: 5 of 8 GPUs idle") < rows.index(f"{RACK}=r1")
    assert 'class="cell shade-3" title="g0: 5 of 8' in rows
    assert "g0 is closest" in html
    assert "<b>1</b> pods wait for GPUs" in html


def test_a_page_has_only_so_many_nodes() -> None:
    whole = GpuView(measured()).map
    first = whole.first(3)

    assert [(domain, len(cells)) for domain, cells in first.rows] == [
        (f"{RACK}=r0", 2),
        (f"{RACK}=r1", 1),
    ]
    assert (whole.size, first.size) == (4, 3)


@pytest.mark.parametrize(
    ("idle", "left_out", "shade", "text"),
    [
        (0, None, "0", "0"),
        (1, None, "1", "1"),
        (7, None, "4", "7"),
        (8, None, "5", "8"),
        (0, GpusLeftOut.SHARED, "unknown", "?"),
    ],
)
def test_a_node_is_coloured_by_what_is_idle(
    idle: int, left_out: GpusLeftOut | None, shade: str, text: str
) -> None:
    gpus = measured()
    one = replace(gpus.nodes[0], idle=idle, left_out=left_out)
    ((_, (cell,)),) = GpuView(replace(gpus, nodes=(one,))).map.rows

    assert (cell.shade, cell.text) == (shade, text)


def test_nodes_that_are_left_out_are_counted_by_reason() -> None:
    nodes = [*NODES, gpu_node("g8", ready=False), gpu_node("g9", unschedulable=True)]

    assert "2 nodes are left out: It takes no pods" in shown(report(seen(nodes)))


def wait(count: int = 1, gang: str = "", **fields: Any) -> GpuWait:
    pods = tuple(PodRef("ml", f"w{i}") for i in range(count))
    defaults: dict[str, Any] = {"answer": GpuAnswer.PODS_IN_THE_WAY}
    return GpuWait(pods, gang, "nvidia.com/gpu", 8, **(defaults | fields))


def in_the_way(*reasons: RefusalReason | None) -> tuple[PodInTheWay, ...]:
    return tuple(PodInTheWay(PodRef("ml", f"p{i}"), 1, why) for i, why in enumerate(reasons))


@pytest.mark.parametrize(
    ("reasons", "ending"),
    [
        ([None], "g1 is closest: 1 pod would leave, and may."),
        (
            [RefusalReason.BARE_POD, RefusalReason.BARE_POD],
            "2 pods would leave, none may, ml/p0, ml/p1 not: bare_pod.",
        ),
        (
            [None, RefusalReason.BARE_POD, RefusalReason.POD_GROUP],
            "3 pods would leave, 1 may, ml/p1 not: bare_pod; ml/p2 not: pod_group.",
        ),
    ],
)
def test_an_answer_names_the_pods_that_may_not_leave(reasons: Any, ending: str) -> None:
    found = describe_wait(wait(nodes=(ClosestNode("g1", 1, in_the_way(*reasons)),)))

    assert found.endswith(ending)


def test_an_answer_for_a_gang_names_all_its_nodes_and_its_domain() -> None:
    nodes = tuple(ClosestNode(name, 1, in_the_way(None)) for name in ("g1", "g2"))
    found = describe_wait(wait(2, "gang ml/train", nodes=nodes, detail="HyperNode s0"))

    assert found == (
        "gang ml/train waits for 8 GPUs (nvidia.com/gpu) on one node, for each of 2 pods; g1, g2 "
        "are closest in HyperNode s0: 2 pods would leave, and may."
    )


def test_pods_of_a_workload_share_an_answer() -> None:
    found = describe_wait(wait(3, answer=GpuAnswer.HAS_ROOM, nodes=(ClosestNode("g1", 1),)))

    assert found.startswith("ml/w0 and 2 alike wait for 8 GPUs")
    assert found.endswith("(g1).")


# Explanations


def explained(pod: str, of: Snapshot | None = None) -> Explanation:
    return explain(parse_subject("pod", pod), decide(of or seen(), policy(), State()), "the lab")


def in_words(explanation: Explanation) -> str:
    return text_of(explanation_blocks(explanation), 200)


def test_a_pod_that_waits_for_gpus_is_explained_by_the_closest_node() -> None:
    text = in_words(explained("apps/large"))

    assert "apps/large waits for 8 GPUs (nvidia.com/gpu) on one node; g0 is closest" in text
    assert "apps/a0 with 1 GPU may leave" in text
    assert "apps/train-1 with 1 GPU stays, job_counts_eviction: " in text
    assert "It must run" not in text


def test_an_explanation_of_a_pod_that_waits_is_the_wait_of_the_plan() -> None:
    found = explained("apps/large").pod

    assert found is not None
    assert (found.verdict, found.changes) == (describe_wait(measured().waits[0]), ())


def test_a_node_is_explained_with_its_idle_gpus() -> None:
    decision = decide(seen(), policy(), State())
    text = in_words(explain(parse_subject("node", "g0"), decision, "the lab"))

    assert "5 of 8 GPUs idle, places for 1/2/4/8 GPUs: 5/2/1/0." in text


def test_other_pods_wait_for_no_gpus() -> None:
    found = explained("apps/a0").pod

    assert found is not None
    assert not found.verdict
    assert found.changes
