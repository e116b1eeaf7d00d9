"""Any configuration of others becomes a policy that loads and is no wider, or an error."""

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.convert.conversion import convert_policy
from desched.convert.notes import Effect
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy
from desched.policy_keys.findings import InvalidPolicy
from tests.properties.mutations import mutated
from tests.properties.outputs import harmless
from tests.repository import ROOT

FOLDER = ROOT / "tests" / "unit" / "convert" / "originals"


def original(path: Path) -> Any:
    """The configuration in a file, without its ConfigMap."""
    document = yaml.safe_load(path.read_text())
    data = document.get("data")
    return yaml.safe_load(next(iter(data.values()))) if data else document


ORIGINALS = [original(path) for path in sorted(FOLDER.iterdir())]


@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(ORIGINALS).flatmap(mutated))
def test_any_damage_gives_a_policy_that_is_no_wider_or_an_error(document: Any) -> None:
    try:
        found = convert_policy(json.dumps(document), "f")
    except InvalidPolicy as error:
        for line in str(error).splitlines():
            harmless(line)
        return
    for line in found.text.splitlines():
        harmless(line)
    for note in found.notes:
        harmless(note.message)
    policy = parse_policy(found.text, "converted").policy
    assert policy.min_underloaded_nodes
    assert policy.protections.single_replicas
    if not any(note.effect is Effect.HELD for note in found.notes):
        no_wider(document, policy)


def no_wider(document: Any, policy: Policy) -> None:
    """Hold the policy against what the document says, wherever its key stands."""
    protections = policy.protections
    allowed = {key for key, value in flags(document) if value is True}
    if not allowed & {"evictLocalStoragePods"} and "PodsWithLocalStorage" not in texts(document):
        assert protections.local_storage
    if not allowed & {"evictSystemCriticalPods"} and "SystemCriticalPods" not in texts(document):
        assert protections.system_critical
    totals = [
        value
        for key, value in flags(document)
        if key == "maxNoOfPodsToEvictTotal" and type(value) is int
    ]
    if totals and "deschedulerPolicy" not in document:
        assert isinstance(policy.limits.total, int)
        assert policy.limits.total <= max(totals)


def flags(value: Any) -> list[tuple[str, Any]]:
    """Every key of the document with its value."""
    if isinstance(value, dict):
        return [*value.items(), *(pair for below in value.values() for pair in flags(below))]
    return [pair for item in value for pair in flags(item)] if isinstance(value, list) else []


def texts(value: Any) -> set[str]:
    """Every text of the document."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return {text for item in items for text in texts(item)}
    return {value} if isinstance(value, str) else set()


PERCENTAGES = st.floats(0, 130).map(lambda number: round(number, 2))
ARGS = {
    "highThresholds": st.dictionaries(
        st.sampled_from(["cpu", "memory", "gpu"]), PERCENTAGES, min_size=1
    ),
    "lowThresholds": st.dictionaries(
        st.sampled_from(["cpu", "memory", "gpu"]), PERCENTAGES, min_size=1
    ),
    "useDeviationThresholds": st.booleans(),
    "numberOfNodes": st.integers(0, 5),
    "evictableNamespaces": st.fixed_dictionaries(
        {},
        optional={
            "include": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
            "exclude": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
        },
    ),
}
CONTROLLER = {
    "namespaces": ARGS["evictableNamespaces"],
    "priorityThreshold": st.fixed_dictionaries({"value": st.integers(-5, 3_000_000_000)}),
    "ignorePvcPods": st.booleans(),
    "evictLocalStoragePods": st.booleans(),
    "maxMigratingPerNode": st.integers(0, 5),
    "maxMigratingPerWorkload": st.sampled_from([0, 1, 7, "10%", "100%"]),
    "maxUnavailablePerWorkload": st.sampled_from([0, 2, "5%"]),
}


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=ARGS),
    st.fixed_dictionaries({}, optional=CONTROLLER),
    st.integers(0, 9) | st.none(),
)
def test_no_configuration_of_koordinator_becomes_wider(
    args: dict[str, Any], controller: dict[str, Any], total: int | None
) -> None:
    document = {
        "kind": "DeschedulerConfiguration",
        "maxNoOfPodsToEvictTotal": total,
        "profiles": [
            {
                "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}]}},
                "pluginConfig": [
                    {"name": "LowNodeLoad", "args": args},
                    {"name": "MigrationController", "args": controller},
                ],
            }
        ],
    }
    found = convert_policy(json.dumps(document), "f")
    policy = parse_policy(found.text, "converted").policy
    protections = policy.protections
    lists = [args.get("evictableNamespaces", {}), controller.get("namespaces", {})]
    held = policy.limits.total == 0
    for namespace in "abcd":
        mine = not protections.included_namespaces or namespace in protections.included_namespaces
        mine = mine and namespace not in protections.excluded_namespaces
        theirs = all(
            (not each.get("include") or namespace in each["include"])
            and namespace not in each.get("exclude", [])
            for each in lists
        )
        assert held or theirs or not mine
    assert protections.pvc_pods == controller.get("ignorePvcPods", False)
    assert protections.local_storage != controller.get("evictLocalStoragePods", False)
    given = controller.get("priorityThreshold", {"value": 2_000_000_000})["value"]
    threshold = protections.priority_threshold.value
    assert threshold is None or threshold <= given
    assert threshold is not None or given == 2_000_000_000
    assert policy.limits.total == 0 or total is None or policy.limits.total == total
    for rule in policy.rules:
        high = args.get("highThresholds", {}).get(rule.resource.value, 100)
        assert rule.target_ratio * 100 >= min(high, 100) - 1e-6
    low = args.get("lowThresholds", {})
    for name in ("cpu", "memory"):
        if name not in low or name not in args.get("highThresholds", {}):
            assert all(r.target_ratio == 1 for r in policy.rules if r.resource.value == name)
