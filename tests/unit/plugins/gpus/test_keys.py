"""GpuFragmentation: for whose GPUs nodes are drained, and what a policy may not say of it."""

import copy
import re
from typing import Any

from desched.plugins.gpus.drains.rules import GpuDrainRules
from desched.policy_file.loading import parse_policy
from tests.unit.plugins.gpus.gpu_cluster import rules_of
from tests.unit.policy_file.published import POLICIES, load, published, refusal

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


def test_a_reserve_has_the_place_where_it_is_written() -> None:
    text = (POLICIES / "gpu-drains.yaml").read_text()
    found = load_text(text).reserves[0].place
    line, key = re.fullmatch(r"p:(\d+): (.+)", found).groups()  # type: ignore[union-attr]
    assert key == "profiles[0].pluginConfig[1].args.reserve[0]"
    assert text.splitlines()[int(line) - 1].strip() == "- gpus: 8"


def load_text(text: str) -> GpuDrainRules:
    found = rules_of(parse_policy(text, "p").policy)
    assert found is not None
    return found


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
    assert rules_of(load(found).policy) == GpuDrainRules(("train",))
