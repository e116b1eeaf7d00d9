"""GpuFragmentation: for whose GPUs nodes are drained, and what a policy may not say of it."""

import copy
import re
from typing import Any

import pytest

from desched.policy.gpu_drains import GpuDrainRules, Reserve
from desched.policy_file.loading import parse_policy
from tests.unit.policy_file.published import POLICIES, load, published, refusal

AT = r"policy\.yaml:1: profiles\[0\]\."
ARGS = rf"{AT}pluginConfig\[2\]\.args"
ENABLED = ["LoadAware", "GpuFragmentation"]
DEMAND = {"namespaces": ["train"]}


def document(
    args: Any = None,
    enabled: list[str] = ENABLED,
    load_aware: dict[str, Any] | None = None,
    configs: int = 1,
) -> dict[str, Any]:
    """The published policy with GpuFragmentation, configured so many times."""
    found = published(load_aware=load_aware)
    (profile,) = found["profiles"]
    config = {"name": "GpuFragmentation", "args": {"demand": DEMAND} if args is None else args}
    profile["pluginConfig"] += [copy.deepcopy(config) for _ in range(configs)]
    profile["plugins"]["balance"] = {"enabled": enabled}
    return found


def rules(**args: Any) -> GpuDrainRules:
    found = load(document(args)).policy.gpu_drains
    assert found is not None
    return found


def test_no_node_is_drained_by_default() -> None:
    assert load(published()).policy.gpu_drains is None


def test_all_that_is_not_written_has_a_default() -> None:
    assert rules(demand=DEMAND) == GpuDrainRules(("train",))
    assert rules(demand={"minPriority": 0}) == GpuDrainRules(least_priority=0)
    (reserve,) = rules(reserve=[{"gpus": 8}]).reserves
    assert reserve == Reserve(8, place=reserve.place)


def test_each_key_counts() -> None:
    found = rules(
        demand={"namespaces": ["b", "a", "b"], "minPriority": -5, "pendingFor": "10m"},
        reserve=[
            {"gpus": 8, "nodes": 2, "domain": "example.com/rack", "maxPriority": 7},
            {"gpus": 8, "domain": "topology.volcano.sh/tier-1"},
            {"gpus": 4, "domain": "example.com/rack"},
        ],
        drainLimits={"moves": 3, "movesDaily": 9, "deadline": "2h"},
    )
    assert found.namespaces == ("b", "a")
    assert (found.least_priority, found.pending_seconds) == (-5, 600)
    assert (found.most_moves, found.daily_moves, found.longest_seconds) == (3, 9, 7200)
    first, tier, small = found.reserves
    assert (first.gpus, first.nodes, first.domain, first.priority) == (8, 2, "example.com/rack", 7)
    assert (tier.domain, small.gpus) == ("topology.volcano.sh/tier-1", 4)


def test_a_reserve_has_the_place_where_it_is_written() -> None:
    text = (POLICIES / "gpu-drains.yaml").read_text()
    found = load_text(text).reserves[0].place
    line, key = re.fullmatch(r"p:(\d+): (.+)", found).groups()  # type: ignore[union-attr]
    assert key == "profiles[0].pluginConfig[1].args.reserve[0]"
    assert text.splitlines()[int(line) - 1].strip() == "- gpus: 8"


def load_text(text: str) -> GpuDrainRules:
    found = parse_policy(text, "p").policy.gpu_drains
    assert found is not None
    return found


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to drain for": (document({}), rf"{ARGS}: has neither demand nor reserve"),
    "no args": (document(None, configs=0), r"plugins\.balance\.enabled\[1\]: .* not configured"),
    "an empty reserve": (document({"reserve": []}), "has neither demand nor reserve"),
    "an empty demand": (
        document({"demand": {}}),
        r"demand\.namespaces: is missing, and so is minPriority",
    ),
    "a demand of nobody": (document({"demand": {"pendingFor": "1m"}}), "no pod would count"),
    "not enabled": (document(enabled=["LoadAware"]), rf"{AT}pluginConfig\[2\]: .*not enabled"),
    "without LoadAware": (
        document(enabled=["GpuFragmentation"]),
        r"plugins: LoadAware is configured but not enabled",
    ),
    "configured twice": (document(configs=2), rf"{AT}pluginConfig\[3\]: .* configured twice"),
    "no GPU": (document({"reserve": [{"gpus": 0}]}), r"reserve\[0\]\.gpus: found 0"),
    "less than none": (document({"reserve": [{"gpus": -1}]}), r"reserve\[0\]\.gpus: found -1"),
    "gpus missing": (document({"reserve": [{"nodes": 1}]}), r"reserve\[0\]\.gpus: is missing"),
    "no node": (
        document({"reserve": [{"gpus": 1, "nodes": 0}]}),
        r"reserve\[0\]\.nodes: found 0",
    ),
    "no key of a label": (
        document({"reserve": [{"gpus": 1, "domain": "a rack"}]}),
        r"reserve\[0\]\.domain: found \"a rack\", allowed is the key of a label",
    ),
    "no tier": (
        document({"reserve": [{"gpus": 1, "domain": "topology.volcano.sh/tier-x"}]}),
        r"reserve\[0\]\.domain: found .* names no tier",
    ),
    "the same reserve": (
        document({"reserve": [{"gpus": 4}, {"gpus": 8}, {"gpus": 4, "nodes": 2}]}),
        r"reserve\[2\]: has the gpus and the domain of reserve\[0\]",
    ),
    "steering off": (
        document(load_aware={"steering": "Off"}),
        rf"{AT}pluginConfig\[1\]\.args\.steering: is Off, but GpuFragmentation",
    ),
    "strict": (
        document(load_aware={"compatibility": "Strict"}),
        r"args\.steering: is Off, but GpuFragmentation",
    ),
    "an unknown key": (
        document({"demand": DEMAND, "reserves": []}),
        r"args\.reserves: unknown key",
    ),
    "no namespace": (document({"demand": {"namespaces": ["A*"]}}), r"namespaces\[0\]: found"),
    "too short": (
        document({"demand": DEMAND, "drainLimits": {"deadline": "4m"}}),
        "drainLimits.deadline: found",
    ),
    "no move": (
        document({"demand": DEMAND, "drainLimits": {"moves": 0}}),
        "drainLimits.moves: found 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_with_one_sentence_and_its_place(case: str) -> None:
    found, expected = REFUSED[case]
    (line,) = refusal(found).splitlines()
    assert re.search(expected, line), line


def test_it_may_be_enabled_once_in_all_profiles() -> None:
    found = document(load_aware={"nodeSelector": "pool=a"})
    found["profiles"].append(copy.deepcopy(found["profiles"][0]))
    (line,) = refusal(found).splitlines()
    assert "profiles[1].plugins.balance.enabled[1]: GpuFragmentation is enabled in an" in line


def test_a_profile_without_load_aware_cannot_enable_it() -> None:
    found = published()
    found["profiles"].append(
        {
            "pluginConfig": [{"name": "GpuFragmentation", "args": {"demand": DEMAND}}],
            "plugins": {"balance": {"enabled": ["GpuFragmentation"]}},
        }
    )
    (line,) = refusal(found).splitlines()
    assert "profiles[1].plugins.balance.enabled[0]: GpuFragmentation needs LoadAware" in line


def test_it_may_be_in_any_profile_that_has_load_aware() -> None:
    found = document()
    first = copy.deepcopy(published(load_aware={"nodeSelector": "pool=a"}))
    found["profiles"].insert(0, first["profiles"][0])
    assert load(found).policy.gpu_drains == GpuDrainRules(("train",))
