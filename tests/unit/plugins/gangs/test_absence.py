"""Without the plugin no pod of a gang leaves, because nothing says when it may."""

import pytest
from msgspec.structs import replace

from desched.model.plan import RefusalReason
from desched.plugins import HOUSE
from desched.plugins.gangs.plugin import Gangs
from tests.builders import evicted, planned, reasons
from tests.unit.eviction.stage import GANG, Stage
from tests.unit.plugins.gangs.test_moves import LEAST, RANKS, SURPLUS, WHOLE, details, training

OTHERS = tuple(plugin for plugin in HOUSE if not isinstance(plugin, Gangs))
WHY = "no plugin knows when its pods may leave"


@pytest.mark.parametrize(
    ("policy", "least", "moved"), [(SURPLUS, "2", ["rank-0"]), (WHOLE, "3", [*RANKS])]
)
def test_without_the_plugin_no_pod_of_a_gang_leaves(policy, least: str, moved: list[str]) -> None:
    marks = {"gang.scheduling.koordinator.sh/name": "llama", LEAST: least}
    seen = training(ranks={name: {"annotations": marks} for name in RANKS})
    assert sorted(evicted(planned(seen, policy))) == moved

    plan = planned(seen, replace(policy, plugins=OTHERS))

    assert evicted(plan) == []
    assert reasons(plan) == {"rank-0": "pod_group"}
    assert details(plan) == {"rank-0": f"gang apps/llama (Koordinator): {WHY}"}


def test_a_plan_with_a_whole_gang_is_not_carried_out_without_the_plugin() -> None:
    stage = Stage("a@n1 of llama", "b@n2 of llama", gang="ab", plugins=OTHERS)
    assert stage.run() == ["not_confirmed"] * 2
    assert stage.asked == []
    assert {outcome.refusal for outcome in stage.outcomes} == {RefusalReason.POD_GROUP}
    assert {outcome.detail for outcome in stage.outcomes} == {f"{GANG}: {WHY}"}
