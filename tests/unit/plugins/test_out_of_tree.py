"""Plugins of others keep pods; they lift nothing, and what is wrong with them is said."""

import pickle
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from desched.decision import decide
from desched.errors import ConfigurationError
from desched.lab.scenarios import guarded_scenario
from desched.model.plan import Plan, Refusal, RefusalReason
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.plugins import HOUSE
from desched.plugins.out_of_tree import OutOfTree
from desched.policy.policy import Policy, Protections
from desched.policy_file.difference import policy_differences
from desched.policy_file.loading import PolicyText, parse_policy, validate_policy
from desched.service.telemetry.cycle_log import PluginLog
from desched.snapshot_file.load_check import refuse_unmeasured
from desched.snapshot_file.taken import Redaction, take_snapshot
from desched.views.explained.landing import placement_of
from tests.builders import (
    NOW,
    amounts,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
)
from tests.unit.service.example_reports import REPORT

Install = Callable[..., None]

TEXT = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
  - name: load
    pluginConfig:
      - name: LoadAware
        args:
          metrics: {type: prometheus, address: "http://prometheus"}
          thresholds: {cpu: 40}
          targetThresholds: {cpu: 70}
    plugins: {balance: {enabled: [LoadAware]}}
outOfTreePlugins:
"""

ONCALL = """
    from desched.plugin_api import Plugin

    class Rules(Plugin):
        interface = 1
        teams: frozenset[str] = frozenset()
        quiet_hours: int = 0

        def stays(self, pod, view):
            if pod.labels.get("team") in self.teams:
                return "on call"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a plugin as pip does: a module, and the metadata of its package."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(name: str, source: str, *, package: str = "", attribute: str = "Rules") -> None:
        package = package or f"of_{name}_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{package}.py").write_text(dedent(source))
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        points = f"[desched.plugins]\n{name} = {package}:{attribute}\n"
        (metadata / "entry_points.txt").write_text(points)

    return installed


def method(body: str, name: str = "stays", parameters: str = "pod, view") -> str:
    """The source of a plugin with one method."""
    return (
        "from desched.plugin_api import Plugin\n"
        "class Rules(Plugin):\n"
        "    interface = 1\n"
        f"    def {name}(self, {parameters}):\n"
        f"        {body}\n"
    )


def avoiding(body: str) -> str:
    return method(body, "avoids", "pod, node, view")


def by(*names: str, args: Mapping[str, Any] | None = None, **fields: Any) -> Policy:
    """A policy with these plugins after those of desched."""
    others = tuple(OutOfTree.named(name, args or {}) for name in names)
    return policy(plugins=(*HOUSE, *others), **fields)


def plan_of(of_policy: Policy, cool: Mapping[str, Mapping[str, str]] | None = None) -> Plan:
    return planned(moving(cool), of_policy)


def moving(cool: Mapping[str, Mapping[str, str]] | None = None) -> Snapshot:
    """A pod of one core that has to leave a hot node for one of the cool nodes."""
    nodes = cool or {"cool": {}}
    one = pod("a", on="hot", request=amounts(1, 1), labels={"app": "web", "team": "payments"})
    used = load({"hot": (0.9, 0.1), **dict.fromkeys(nodes, (0.1, 0.1))}, {"a": (1.0, 0.1)})
    there = [node("hot"), *(node(name, labels=labels) for name, labels in nodes.items())]
    return snapshot(there, [one], used)


def refusal(plan: Plan) -> Refusal:
    (only,) = plan.refusals
    return only


def test_a_rule_keeps_a_pod_and_the_detail_has_its_words(install: Install) -> None:
    install("oncall", ONCALL)
    assert evicted(plan_of(by("oncall"))) == ["a"]
    found = refusal(plan_of(by("oncall", args={"teams": ["payments"]})))
    assert (found.reason, found.detail) == (RefusalReason.PLUGIN_RULE, "oncall: on call")


def test_what_is_installed_and_not_named_takes_no_part(install: Install) -> None:
    install("never", method("return 'never'"))
    assert evicted(plan_of(policy())) == ["a"]


def test_the_first_plugin_of_the_policy_that_refuses_gives_the_reason(install: Install) -> None:
    install("first", method("return 'one'"))
    install("second", method("return 'two'"))
    assert refusal(plan_of(by("first", "second"))).detail == "first: one"
    assert refusal(plan_of(by("second", "first"))).detail == "second: two"


def test_a_rule_of_desched_comes_before(install: Install) -> None:
    install("never", method("return 'never'"))
    priced = by("never", protections=Protections(min_replicas=50))
    assert reasons(plan_of(priced)) == {"a": "too_few_replicas"}


def test_no_annotation_lifts_the_rule(install: Install) -> None:
    install("never", method("return 'never'"))
    one = pod("a", on="hot", request=amounts(1, 1), annotations={"desched.io/evict": "true"})
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    plan = planned(snapshot([node("hot"), node("cool")], [one], used), by("never"))
    assert reasons(plan) == {"a": "plugin_rule"}


def test_a_limit_leaves_other_nodes(install: Install) -> None:
    install("picky", avoiding("return 'canary' if 'canary' in node.labels else None"))
    plan = plan_of(by("picky"), {"cool": {}, "dark": {"canary": ""}})
    assert [move.expected_node for move in plan.evictions] == ["cool"]
    assert plan.evictions[0].landing_risk >= 0.5
    found = refusal(plan_of(by("picky"), {"dark": {"canary": ""}}))
    assert found.reason is RefusalReason.PLUGIN_LIMIT
    assert found.detail == (
        "picky: canary: 0/2 nodes are available: 1 node is excluded by a plugin, "
        "1 node is the one to be relieved"
    )


def test_an_explanation_names_what_keeps_a_pod_off_some_of_the_nodes(install: Install) -> None:
    install("picky", avoiding("return 'canary' if 'canary' in node.labels else None"))
    install("wary", avoiding("return 'dark' if node.name == 'dark' else None"))
    of_policy = by("picky", "wary")
    decision = decide(moving({"cool": {}, "dark": {"canary": ""}}), of_policy, State())
    (one,) = decision.context.cluster.pods
    places = placement_of(one, decision)
    assert places is not None
    assert places.limits == ("picky: canary", "wary: dark")


def test_each_of_several_limits_counts_its_nodes(install: Install) -> None:
    install("one", avoiding("return 'no' if node.name == 'cool' else None"))
    install("two", avoiding("return 'no' if node.name == 'dark' else None"))
    found = refusal(plan_of(by("one", "two"), {"cool": {}, "dark": {}}))
    assert "2 nodes are excluded by a plugin" in found.detail


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return pod.labels['tier']", r"of_broken_\w+\.py:5: KeyError: 'tier'"),
        ("return False", "answered bool, not str"),
        ("return ' '", "answered an empty text"),
        ("raise SystemExit(0)", r"of_broken_\w+\.py:5: SystemExit: 0"),
        ("raise ValueError('a\\n' * 300)", r"of_broken_\w+\.py:5: ValueError: (a\\n){60,}.*…"),
    ],
)
@pytest.mark.parametrize("source", [method, avoiding])
def test_a_plugin_that_fails_keeps_the_pod(
    source: Callable[[str], str], body: str, why: str, install: Install
) -> None:
    install("broken", source(body))
    found = refusal(plan_of(by("broken")))
    assert found.reason is RefusalReason.PLUGIN_FAILED
    assert re.match(f"broken: {why}", found.detail)
    assert found.detail.isprintable()


def test_the_log_has_the_first_failure_of_a_plugin(install: Install) -> None:
    install("broken", method("return pod.labels['tier']"))
    install("never", method("return 'never'"))
    log = PluginLog()
    with capture_logs() as lines:
        for plan in (plan_of(by("never")), plan_of(by("broken")), plan_of(by("broken"))):
            log.publish(msgspec.structs.replace(REPORT, plan=plan))
    (line,) = lines
    assert (line["event"], line["plugin"], line["pod"]) == ("plugin.failed", "broken", "apps/a")
    assert line["why"].endswith(".py:5: KeyError: 'tier'")


def test_a_plugin_sees_the_node_the_workload_and_the_namespace(install: Install) -> None:
    seen = "view.node_of(pod).name, str(view.workload_of(pod)), view.namespace_labels('apps')"
    install("seeing", method(f"return repr(({seen}, view.now.year))"))
    one = pod("a", on="hot", request=amounts(1, 1))
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    there = snapshot([node("hot"), node("cool")], [one], used, namespaces={"apps": {"tier": "x"}})
    found = refusal(planned(there, by("seeing"))).detail
    assert found == f"seeing: ('hot', 'Deployment apps/web', {{'tier': 'x'}}, {NOW.year})"


# --- what is refused at the start ----


def why_not(name: str, args: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        OutOfTree.named(name, args or {})
    return str(caught.value)


def test_a_plugin_that_is_not_installed_is_refused_with_those_that_are(install: Install) -> None:
    nowhere = "no plugin oncall is installed where this runs; installed are: "
    assert why_not("oncall") == f"{nowhere}none."
    install("never", method("return 'never'"))
    install("another", "raise SystemError('it is not loaded')")
    assert why_not("oncall") == f"{nowhere}another, never."
    assert why_not("nevver") == (
        "no plugin nevver is installed where this runs; installed are: another, never; "
        'did you mean "never"?'
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (ONCALL.replace("interface = 1", ""), "states no version of the interface, and this"),
        (ONCALL.replace("interface = 1", "interface = 2"), "is for 2, and this desched has inter"),
        ("import nothing_like_it", "cannot be loaded: ModuleNotFoundError: No module named 'noth"),
        ("raise SystemExit(0)", "cannot be loaded: SystemExit: 0."),
        ("", "cannot be loaded: AttributeError: module 'of_odd_"),
        (ONCALL.replace("stays", "stay"), "has a method stay, which desched never asks; did you m"),
        (method("return 1", "keep"), "has a method keep, which desched never asks; begin its"),
        (method("return 1", "_keep"), "has none of the methods avoids and stays."),
        ("Rules = print", r"is no plugin: of_odd_"),
    ],
)
def test_a_plugin_that_cannot_take_part_is_refused(source: str, why: str, install: Install) -> None:
    install("odd", source)
    assert why_not("odd").startswith(f"odd {why}")


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("twin", ONCALL, package="a_twin")
    install("twin", ONCALL, package="b_twin")
    assert (
        why_not("twin")
        == "several packages have a plugin twin; keep one of a_twin 1.0 and b_twin 1.0."
    )


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (
            {"team": "x"},
            'unknown key team, allowed are teams, quietHours; did you mean "teams"?',
        ),
        ({"pause": 3}, "unknown key pause, allowed are teams, quietHours."),
        ({"teams": 3}, "Expected `array`, got `int` - at `$.teams`."),
    ],
)
def test_args_that_the_plugin_does_not_know_are_refused(
    args: Mapping[str, Any], why: str, install: Install
) -> None:
    install("oncall", ONCALL)
    assert why_not("oncall", args) == f"oncall refuses its args: {why}"


def test_args_that_cannot_be_compared_are_refused(install: Install) -> None:
    install("odd", ONCALL.replace("frozenset", "list").replace("list()", "[]"))
    assert why_not("odd", {"teams": ["a"]}).startswith(
        "odd refuses its args: TypeError: unhashable"
    )


def test_the_policy_names_the_line_of_what_is_wrong(install: Install) -> None:
    install("oncall", ONCALL)
    twice = "  - name: oncall\n  - name: oncall\n  - name: missing\n"
    found = validate_policy(TEXT + twice, "p.yaml")
    assert found.policy is None
    assert [finding.line.partition("; ")[0] for finding in found.findings] == [
        "p.yaml:14: outOfTreePlugins[1].name: names this plugin a second time",
        "p.yaml:15: outOfTreePlugins[2]: no plugin missing is installed where this runs",
    ]


# --- policies as values ----


def with_args(args: str) -> Policy:
    return parse_policy(f"{TEXT}  - name: oncall\n    args: {args}\n", "p.yaml").policy


def kept(by_policy: Policy) -> Mapping[str, str]:
    return reasons(plan_of(by_policy))


def test_the_policy_has_the_plugins_of_others_after_those_of_desched(install: Install) -> None:
    install("oncall", ONCALL)
    found = with_args("{teams: [payments], quietHours: 3}").plugins
    assert found[: len(HOUSE)] == HOUSE
    assert str(found[-1]).endswith("Rules(teams=frozenset({'payments'}), quiet_hours=3))")
    assert parse_policy(TEXT.rpartition("out")[0], "p.yaml").policy.plugins == HOUSE


def test_policies_differ_by_their_plugins(install: Install) -> None:
    install("oncall", ONCALL)
    before, after = with_args("{teams: [a, b]}"), with_args("{quietHours: 3}")
    assert policy_differences(before, with_args("{teams: [b, a]}")) == ()
    (found,) = policy_differences(before, after)
    assert found.line == (
        'outOfTreePlugins: oncall {"teams":["a","b"],"quietHours":0} → '
        'oncall {"teams":[],"quietHours":3}'
    )
    assert found.meaning.startswith("[Plugins of your own](")


def test_a_policy_keeps_its_plugins_in_another_process(install: Install) -> None:
    """As a backtest hands it to its workers."""
    install("oncall", ONCALL)
    of_policy = by("oncall", args={"teams": ["payments"]})
    assert pickle.loads(pickle.dumps(of_policy)) == of_policy  # noqa: S301  (our own)
    with ProcessPoolExecutor(1, get_context("spawn")) as workers:
        assert workers.submit(kept, of_policy).result(timeout=60) == {"a": "plugin_rule"}


# --- snapshots ----


def test_a_snapshot_keeps_all_labels_for_plugins_which_may_read_any(install: Install) -> None:
    install("oncall", ONCALL)
    world, plain = guarded_scenario().world(acting=False), TEXT.rpartition("out")[0]
    narrow = take_snapshot(world, PolicyText(plain, "p"), State(), "", Redaction())
    text = PolicyText(f"{TEXT}  - name: oncall\n", "p")
    assert narrow.kept_labels is not None
    assert take_snapshot(world, text, State(), "", Redaction()).kept_labels is None
    with pytest.raises(ConfigurationError, match="--hash-names replaces values of labels"):
        take_snapshot(world, text, State(), "", Redaction(hash_names=True))
    own, other = (parse_policy(*each).policy for each in (PolicyText(plain, "p"), text))
    refuse_unmeasured(own, narrow, own, "now.snapshot")
    with pytest.raises(ConfigurationError, match=r"^p: now\.snapshot does not have all labels, "):
        refuse_unmeasured(other, narrow, own, "now.snapshot")
