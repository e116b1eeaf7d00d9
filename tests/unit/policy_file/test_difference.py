"""Every value of a policy counts, and none is told apart that means the same."""

import json
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from desched.model.cluster import SpreadConstraint
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.network.placement_domains import DomainMode
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.plugins.gpus.plugin import Gpus
from desched.policy.acting_window import ActingWindow
from desched.policy.cron import cron_fields
from desched.policy.policy import DestinationWindow, PriorityThreshold
from desched.policy.schedulers import OtherScheduler, SchedulerProfile
from desched.policy.share import Share
from desched.policy_file.difference import policy_differences
from desched.policy_file.loading import parse_policy
from tests.builders import house
from tests.unit.policy_file.published import POLICIES, PUBLISHED_TEXT, published

POLICY = parse_policy((POLICIES / "node-pools.yaml").read_text(), "p").policy
OTHERS_KNOWN = {
    "a": OtherScheduler(SchedulerProfile.VOLCANO),
    "b": OtherScheduler(SchedulerProfile.KUBE_SCHEDULER),
}
POLICY = msgspec.structs.replace(
    POLICY,
    scheduler=msgspec.structs.replace(POLICY.scheduler, others=OTHERS_KNOWN),
    plugins=house(Gpus(GpuDrainRules(("train",), 1000, reserves=(Reserve(8, 2),)))),
)
NIGHT = ActingWindow(cron_fields("0 22 * * mon-fri"), 4 * 3600, ZoneInfo("Europe/Berlin"))
WEB = LabelSelector((Requirement("pool", Operator.IN, ("web",)),))
OF_PROFILE = {"a": ("profile", "volcano", "further"), "b": ("profile", "strategy", "weights")}
"""What counts in the profile of each of these schedulers."""
NOT_COMPARED = {"source", "digest", "place", "zero_at", "otherwise"}
"""The name of the file, what is made of its text, lines in it, and what would be without one."""

OTHERS: dict[str, Any] = {
    "address": "http://other",
    "matchers": {"cluster": "b"},
    "queries": {"pod_cpu": "sum(x[{window}])"},
    "sources": {"node_memory": 'job="x"'},
    "node_selector": WEB,
    "destination_selector": WEB,
    "selector": WEB,
    "labels": WEB,
    "namespace_labels": WEB,
    "protected_storage_classes": ("fast",),
    "rungs": (("zone",), ("rack",)),
    "groups": ("rack",),
    "accelerator_groups": ("clique",),
    "equivalence": ("product",),
    "domain": "rack",
    "included_namespaces": ("a",),
    "excluded_namespaces": ("b",),
    "understood_owner_kinds": ("a/B",),
    "acknowledged_deschedulers": ("Volcano",),
    "maintenance_windows": (NIGHT,),
    "blackout_windows": (NIGHT,),
    "destination_windows": (DestinationWindow(3600, 0.95),),
    "windows_seconds": (900, 1800),
    "class_name": "high",
    "value": 7,
    "name": "another",
    "namespace": Share(0.1),
    "namespaces": ("a",),
    "cache_affinity": "Ignore",
    "gang_mode": "Whole",
    "volcano_jobs": "Surplus",
    "queues": "Ignore",
    "balance_scope": "rack",
    "modes": (("rack", DomainMode.PREFER),),
    "mode": "Off",
    "type": "metrics-server",
    "stack": "thanos",
    "tenant": "team-a",
    "strategy": "MostAllocated",
    "profile": "KAI",
    "default_spread": (SpreadConstraint("zone", 1, hard=True, selector=None),),
}


def changed(value: Any, name: str) -> Any:
    """Another value of the same kind."""
    if isinstance(value, DomainMode):
        return DomainMode.IGNORE
    if name in OTHERS:
        found = OTHERS[name]
        return (
            type(value)(found)
            if name
            in {
                "cache_affinity",
                "gang_mode",
                "volcano_jobs",
                "queues",
                "mode",
                "strategy",
                "type",
                "profile",
            }
            else found
        )
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else value / 2
    return 3 if isinstance(value, Share) or value is None else None


def variants(value: msgspec.Struct) -> list[tuple[str, msgspec.Struct]]:
    """The struct with one field changed, for each field of it and of the structs in it."""
    found: list[tuple[str, msgspec.Struct]] = []
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        below: list[tuple[str, Any]]
        if name in NOT_COMPARED or name == "resource":
            continue
        if name == "plugins":
            below = [
                (f"{type(own).__name__}.{n}", house(v))  # type: ignore[arg-type]  # a plugin
                for own in inner
                for n, v in variants(own)
            ]
        elif isinstance(inner, msgspec.Struct) and not isinstance(inner, Share | LabelSelector):
            below = variants(inner)
        elif isinstance(inner, tuple) and inner and isinstance(inner[0], msgspec.Struct):
            below = [(n, (v, *inner[1:])) for n, v in variants(inner[0])]
        elif name == "others":
            below = [
                (f"{key}.{n}", {**inner, key: v})
                for key, own in OF_PROFILE.items()
                for n, v in variants(inner[key])
                if n.startswith(own)
            ]
        else:
            below = [("", changed(inner, name))]
        found += [(f"{name}.{n}", msgspec.structs.replace(value, **{name: v})) for n, v in below]
    return found


VARIANTS = {
    field: after
    for field, after in variants(POLICY)
    if not (field.startswith("pools.rules") and "windows" in field)  # they are those of the policy
}


def test_a_policy_does_not_differ_from_itself() -> None:
    assert policy_differences(POLICY, POLICY) == ()
    renamed = msgspec.structs.replace(POLICY, source="other", digest="x")
    assert policy_differences(POLICY, renamed) == ()


@pytest.mark.parametrize("field", VARIANTS)
def test_no_value_of_a_policy_is_left_out(field: str) -> None:
    after: Any = VARIANTS[field]
    if field.endswith("class_name."):
        protections = msgspec.structs.replace(
            after.protections, priority_threshold=PriorityThreshold(class_name="high")
        )
        after = msgspec.structs.replace(after, protections=protections)
    found = policy_differences(POLICY, after)
    assert found
    for each in found:
        assert each.before != each.after
        assert each.meaning.endswith(("…", ".")), each
        assert each.line.isprintable()


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[str, str]]:
    old, new = (parse_policy(json.dumps(each), "f").policy for each in (before, after))
    return {each.key: (each.before, each.after) for each in policy_differences(old, new)}


@pytest.mark.parametrize(
    ("load_aware", "expected"),
    [
        (
            {"targetThresholds": {"cpu": 85, "memory": 85}},
            {"targetThresholds.cpu": ("80 %", "85 %")},
        ),
        ({"windows": {"cpu": ["5m", "15m"]}}, {"windows.cpu": ("5m", "5m, 15m")}),
        (
            {
                "duration": "300s",
                "stopMargin": 5,
                "evictionPrice": "300s",
            },
            {},
        ),
        ({"evictionPrice": "10m"}, {"evictionPrice": ("5m", "10m")}),
        (
            {"evictionLimits": {"total": "2%"}},
            {"evictionLimits.total": ("5 % of the nodes, at least 20", "2 % of the nodes")},
        ),
        ({"steering": "Off"}, {"steering": ("WhenNeeded", "Off")}),
        (
            {"nodeSelector": "pool in (web, db),!spot"},
            {"nodeSelector": ("all nodes", "pool in (web, db),!spot")},
        ),
        (
            {"maintenanceWindows": [{"start": "0 22 * * *", "duration": "6h"}]},
            {"maintenanceWindows": ("at any time", "0 22 * * * for 6h (UTC)")},
        ),
        (
            {"nodePools": [{"name": "gpu", "nodeSelector": "gpu", "stopMargin": 7}]},
            {
                "nodePools": ("none", "gpu, all others"),
                "nodePools.gpu.nodeSelector": ("none", "gpu"),
            },
        ),
        (
            {"followUp": {"pause": {"workloads": 5}}},
            {"followUp.pause.workloads": ("3", "5")},
        ),
        (
            {"followUp": {"pause": {"ownerLabel": "example.com/team"}}},
            {"followUp.pause.ownerLabel": ("none", "example.com/team")},
        ),
        (
            {"evictableNamespaces": {"include": ["a", "b"]}},
            {
                "evictableNamespaces.include": ("all", "a, b"),
                "evictableNamespaces.exclude": ("batch", "none"),
            },
        ),
    ],
)
def test_what_differs_is_said_in_the_words_of_the_policy(
    load_aware: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    found = differences(published(), published(load_aware=load_aware))
    assert expected.items() <= found.items()
    assert expected or not found


def test_what_the_other_plugin_sets_has_its_name() -> None:
    found = differences(published(), published(evictor={"minReplicas": 3}))
    assert found == {"DefaultEvictor.minReplicas": ("0", "3")}


def test_the_meaning_is_that_of_the_reference() -> None:
    before = parse_policy(PUBLISHED_TEXT, "a").policy
    after = parse_policy(PUBLISHED_TEXT.replace("cpu: 80", "cpu: 70"), "b").policy
    (found,) = policy_differences(before, after)
    assert found.line == "targetThresholds.cpu: 80 % → 70 %"
    assert found.meaning == (
        "Load in percent above which, in any resource, a node is overloaded. "
        "CPU, percent of the node's capacity."
    )


def test_windows_name_their_zone() -> None:
    berlin, utc = (
        msgspec.structs.replace(POLICY, blackout_windows=(msgspec.structs.replace(NIGHT, zone=z),))
        for z in (NIGHT.zone, UTC)
    )
    (found,) = policy_differences(berlin, utc)
    assert found.before == "0 22 * * 1,2,3,4,5 for 4h (Europe/Berlin)"


def test_a_policy_for_pools_only_is_told_apart() -> None:
    only = msgspec.structs.replace(POLICY, only_pools=True)
    (found,) = policy_differences(POLICY, only)
    assert (found.before, found.after) == ("gpu, general, all others", "gpu, general")
