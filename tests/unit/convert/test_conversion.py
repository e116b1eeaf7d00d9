"""What becomes of the policies of others: always one that loads, never one that evicts more."""

import json
from pathlib import Path

import pytest
import yaml

from desched.convert.conversion import Conversion, Dialect, convert_policy
from desched.convert.notes import Effect
from desched.policy.policy import MetricsType, Policy
from desched.policy_file.loading import parse_policy
from desched.policy_keys.findings import InvalidPolicy
from tests.stored_text import check_stored

ORIGINALS = Path(__file__).parent / "originals"
DIALECTS = {
    "koordinator-config-map.yaml": Dialect.KOORDINATOR,
    "koordinator-traps.yaml": Dialect.KOORDINATOR,
    "low-node-load-args.yaml": Dialect.KOORDINATOR,
    "sigs-prometheus.yaml": Dialect.KUBERNETES_SIGS,
    "sigs-helm-values.yaml": Dialect.KUBERNETES_SIGS,
    "sigs-metrics-server.yaml": Dialect.KUBERNETES_SIGS,
    "v1alpha1.yaml": Dialect.V1ALPHA1,
    "cce.json": Dialect.CCE,
    "volcano-as-shipped.yaml": Dialect.VOLCANO,
    "volcano-dead-keys.yaml": Dialect.VOLCANO,
}


def converted(name: str) -> tuple[Conversion, Policy]:
    found = convert_policy((ORIGINALS / name).read_text(), name)
    return found, parse_policy(found.text, "converted").policy


def noted(found: Conversion, effect: Effect) -> set[str]:
    """The last word of the key of each such note."""
    return {str(note.path[-1]) for note in found.notes if note.effect is effect and note.path}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_original_becomes_the_stored_policy(name: str) -> None:
    """With the effect of each note, and the line and the key of the original that it is about."""
    found, _ = converted(name)
    notes = (f"# {note.effect} by line {note.place.line}: {note.key}" for note in found.notes)
    text = "\n".join((found.text.rstrip(), "", *notes, ""))
    check_stored(ORIGINALS.with_name("converted") / f"{Path(name).stem}.yaml", text)


def test_a_password_of_the_original_is_not_repeated() -> None:
    assert "secret" in (ORIGINALS / "volcano-dead-keys.yaml").read_text()
    assert "secret" not in converted("volcano-dead-keys.yaml")[0].text


def test_every_original_is_tried() -> None:
    assert {path.name for path in ORIGINALS.iterdir()} == DIALECTS.keys()


@pytest.mark.parametrize("name", DIALECTS)
def test_the_dialect_is_found_and_the_policy_loads_and_is_cautious(name: str) -> None:
    found, policy = converted(name)
    assert found.dialect is DIALECTS[name]
    assert yaml.safe_load(found.text) == found.document
    assert parse_policy(json.dumps(found.document), "json").policy.rules == policy.rules
    assert policy.min_underloaded_nodes >= 1
    assert policy.eviction_price_minutes == 5
    assert policy.protections.single_replicas
    held = any(note.effect is Effect.HELD for note in found.notes)
    assert held == (policy.limits.total == 0)


@pytest.mark.parametrize("name", DIALECTS)
def test_every_note_is_a_comment_of_the_policy_with_a_line_of_the_original(name: str) -> None:
    found, _ = converted(name)
    comments = "".join(
        line.strip().removeprefix("#").replace(" ", "")
        for line in found.text.splitlines()
        if line.strip().startswith("#")
    )
    lines = len((ORIGINALS / name).read_text().splitlines())
    assert len(found.notes) > 1
    for note in found.notes:
        assert note.text.replace(" ", "") in comments
        assert 1 <= note.place.line <= lines


REFUSED = {
    "apiVersion: v1\nkind: Pod": "there is nothing to convert: no profile has",
    "kind: DeschedulerPolicy\nstrategies: {PodLifeTime: {}}": "strategies: there is no LowNode",
    "kind: DeschedulerPolicy\nkind: x": "kind: is repeated",
    "kind: LowNodeLoadArgs\nhighThresholds: {cpu: high}\nlowThresholds: [3]": (
        'f:2: highThresholds.cpu: found "high", allowed is a number from 0.'
    ),
    "kind: LowNodeLoadArgs\nevictableNamespaces: {exclude: ['kube-*']}": (
        'f:2: evictableNamespaces.exclude: "kube-*" is not the name of a namespace; correct it'
    ),
    "kind: LowNodeLoadArgs\nnodeSelector: {matchLabels: {'a b': c}}": (
        "f:2: nodeSelector: is not a label selector that desched understands"
    ),
    "kind: LowNodeLoadArgs\nhighThresholds: {cpu: '${CPU}'}": (
        'f:2: highThresholds.cpu: holds "${CPU}", which nothing has filled in; write the value'
    ),
    "kind: MigrationControllerArgs": "there is nothing to convert: no profile has LowNodeLoad",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_converted_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        convert_policy(text, "f")
    assert REFUSED[text] in str(caught.value)


def test_a_policy_of_desched_needs_no_conversion() -> None:
    text = (ORIGINALS / "volcano-dead-keys.yaml").read_text()
    with pytest.raises(InvalidPolicy, match="only desched has windows, so this is a policy of"):
        convert_policy(text.replace("duration: 30s", "windows: {cpu: 5m}"), "f")


def test_the_dialect_that_is_asked_for_is_taken() -> None:
    text = (ORIGINALS / "cce.json").read_text()
    assert convert_policy(text, "f", Dialect.VOLCANO).dialect is Dialect.VOLCANO
    with pytest.raises(InvalidPolicy, match="none has the plugin LowNodeLoad"):
        convert_policy(text, "f", Dialect.KOORDINATOR)


def of_utilization(args: dict[str, object], **root: object) -> Conversion:
    """A policy with LowNodeUtilization and these args, converted."""
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "default",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"evictLocalStoragePods": True}},
                    {"name": "LowNodeUtilization", "args": args},
                ],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
        ],
        **root,
    }
    return convert_policy(json.dumps(document), "policy.json")


@pytest.mark.parametrize(
    ("usage", "providers", "source"),
    [
        ({"source": "KubernetesMetrics"}, ["KubernetesMetrics"], MetricsType.METRICS_SERVER),
        ({"metricsServer": True}, [], MetricsType.METRICS_SERVER),
        ({}, ["KubernetesMetrics"], MetricsType.METRICS_SERVER),
        ({"source": "KubernetesMetrics"}, ["Prometheus"], MetricsType.METRICS_SERVER),
        ({"source": "Prometheus"}, ["KubernetesMetrics", "Prometheus"], MetricsType.PROMETHEUS),
        ({}, [], MetricsType.PROMETHEUS),
    ],
)
def test_the_source_of_load_is_kept(
    usage: dict[str, object], providers: list[str], source: MetricsType
) -> None:
    args = {
        "thresholds": {"cpu": 20},
        "targetThresholds": {"cpu": 70},
        "metricsUtilization": usage,
    }
    found = of_utilization(args, metricsProviders=[{"source": each} for each in providers])
    assert parse_policy(found.text, "converted").policy.metrics.type is source
    asks = "set the address of Prometheus" in found.text
    assert asks == (source is MetricsType.PROMETHEUS)


def test_volcanos_spelling_of_metrics_server_is_kept() -> None:
    text = (ORIGINALS / "volcano-as-shipped.yaml").read_text()
    found = convert_policy(text.replace("type: null", "type: metrics_server"), "policy.yaml")
    policy = parse_policy(found.text, "converted").policy
    assert policy.metrics.type is MetricsType.METRICS_SERVER
    assert policy.limits.total != 0


def test_thresholds_of_requests_say_which_targets_are_higher_here() -> None:
    found = of_utilization(
        {
            "targetThresholds": {"cpu": 50, "memory": 90, "pods": 60},
            "thresholds": {"cpu": 20, "memory": 20, "pods": 20},
        }
    )
    said = "\n".join(note.text for note in found.notes)
    assert "which are higher (cpu 50 became 80). Choose" in said
    assert 'the annotation desched.io/evict: "true"' in said


@pytest.mark.parametrize(
    ("per_namespace", "within_a_minute", "expected"),
    [(2, 3, 2), (20, 3, 15), (0, 3, 15)],
)
def test_the_smaller_of_two_limits_for_a_namespace_holds(
    per_namespace: int, within_a_minute: int, expected: int
) -> None:
    """`maxMigratingPerNamespace` and `objectLimiters` become one limit for a cycle of 5 minutes."""
    text = (ORIGINALS / "koordinator-traps.yaml").read_text()
    limits = f"maxMigratingPerNamespace: {per_namespace}\n      skipEvictionGates"
    text = text.replace("skipEvictionGates", limits)
    text = text.replace(
        "duration: 1m, maxMigrating: 3", f"duration: 1m, maxMigrating: {within_a_minute}"
    )
    policy = parse_policy(convert_policy(text, "f").text, "converted").policy
    assert policy.limits.namespace == expected


UTILIZATION = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{top}
profiles:
- name: default
  {profile}
  pluginConfig:
  - name: LowNodeUtilization
    args: {{targetThresholds: {{memory: 60}}, thresholds: {{memory: 40}}}}
  plugins: {{balance: {{enabled: [LowNodeUtilization]}}}}
"""
PROTECTIONS = "podProtections: {extraEnabled: [PodsWithPVC]}"


@pytest.mark.parametrize(
    "places", [{"top": PROTECTIONS, "profile": ""}, {"top": "", "profile": PROTECTIONS}]
)
def test_a_protection_in_the_wrong_place_holds_the_policy(places: dict[str, str]) -> None:
    found = convert_policy(UTILIZATION.format(**places), "wrong.yaml")
    assert "podProtections" in noted(found, Effect.HELD)
    assert parse_policy(found.text, "converted").policy.limits.total == 0


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("KubeDescheduler", "convert the ConfigMap `cluster` that its operator writes"),
        ("HelmRelease", "the ConfigMap that the chart writes"),
        ("Descheduler", "a Descheduler of Deckhouse"),
    ],
)
def test_an_object_of_an_operator_leads_to_the_policy_that_it_writes(kind: str, said: str) -> None:
    text = f"apiVersion: example.com/v1\nkind: {kind}\nspec: {{strategy: {{}}}}\n"
    with pytest.raises(InvalidPolicy, match=said) as raised:
        convert_policy(text, "other.yaml")
    assert "nothing to convert" not in str(raised.value)


@pytest.mark.parametrize("name", DIALECTS)
def test_no_two_notes_give_different_meanings_to_the_same_targets(name: str) -> None:
    """Those that are replaced are not percent of allocatable, nor are pods ever of capacity."""
    found, policy = converted(name)
    texts = [each.text for each in found.notes]
    of_allocatable = [text for text in texts if "in percent of allocatable there" in text]
    assert len(of_allocatable) <= 1
    assert not of_allocatable or not any(text.startswith("shares of") for text in texts)
    assert not any("pods" in text.partition(" in percent")[0] for text in of_allocatable)
    assert any("requires one node" in text for text in texts) <= (policy.min_underloaded_nodes == 1)
