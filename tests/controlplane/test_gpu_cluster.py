"""The GPU cluster of the demonstration on a real API server, with the real scheduler."""

from collections import defaultdict

import pytest

from desched.lab.gpu_cluster import GANG, RACKS, RIGHT_RACK
from tests.controlplane.gpu_site import GPU_SITE, gpu_hyper_nodes, gpu_site
from tests.controlplane.installation import DEPLOY
from tests.controlplane.manifests import HYPER_NODES, VOLCANO_GROUPS, volcano_group
from tests.controlplane.sites import Sites, app_of, short

RELIEF = ({"chat"}, {"embed"}, {"mistral"}, {"gateway", "tokenizer"})
"""Of each node of the overloaded rack, the workloads that may leave it; one of them is enough."""

MOVABLE = frozenset[str]().union(*RELIEF)

GANGS_AND_MODELS = {"pod_group", "model_cache"}


@pytest.fixture(scope="module")
def site(empty_sites: Sites) -> Sites:
    empty_sites.build(gpu_site())
    empty_sites.plane.serve(VOLCANO_GROUPS)
    for folder in ("networks", "pod-groups"):
        empty_sites.plane.apply((DEPLOY / folder / "volcano.yaml").read_text())
    empty_sites.plane.serve(HYPER_NODES)
    empty_sites.plane.apply(*gpu_hyper_nodes())
    rack = {"mode": "hard", "highestTierAllowed": 1}
    group = volcano_group(GPU_SITE, GANG.name, GANG.minimum, networkTopology=rack)
    empty_sites.plane.apply(group)
    return empty_sites


def test_a_rack_is_relieved_by_the_right_pods_towards_the_right_rack(site: Sites) -> None:
    """R0.2, R1.2, R2.2, R2.4, R3.1, R3.2, R3.5: what the demonstration shows."""
    before = {app: site.where(GPU_SITE, app) for app in MOVABLE}
    moved: set[str] = set()
    said: dict[tuple[str, str], set[str]] = defaultdict(set)

    def relieved() -> bool:
        """One look is enough unless a busy machine leaves gaps in what is measured."""
        report = site.look(GPU_SITE, "--evict")
        moved.update(app_of(o["pod"]) for o in report["outcomes"] if o["verdict"] == "evicted")
        for each in report["plan"]["refusals"]:
            if each["reason"] in GANGS_AND_MODELS:
                what = each["reason"], each["detail"].partition(": 0/")[0]
                said[what].add(each["pod"]["name"])
        return all(map(moved.intersection, RELIEF))

    site.plane.wait_for("a relieved rack", relieved)
    assert moved <= MOVABLE
    for app in moved:
        landed = site.landed(GPU_SITE, app, before[app])
        assert set(short(GPU_SITE, landed)) <= set(RACKS[RIGHT_RACK])
    assert {what: len(pods) for what, pods in said.items()} == {
        ("pod_group", f"gang {GPU_SITE}/llama (Volcano): 8 of 8 needed"): GANG.minimum,
        ("pod_group", f"gang {GPU_SITE}/sky (SkyPilot): nothing creates its pods again"): 1,
        ("model_cache", "model llama-70b is on ai-te4 and ai-te9 only"): 1,
    }
