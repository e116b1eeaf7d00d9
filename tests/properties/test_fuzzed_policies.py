"""However a policy is damaged, it is a policy or one error; with many faults it names them all."""

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.errors import ConfigurationError
from desched.policy_file.loading import LoadedPolicy, parse_policy
from tests.properties.mutations import HARMFUL_TEXTS, json_values, mutated
from tests.properties.outputs import harmless
from tests.unit.policy_file.published import POLICIES, PUBLISHED, published

RICH: Any = yaml.safe_load((POLICIES / "cautious.yaml").read_text())
FAULTS: dict[str, tuple[str, object]] = {
    "numberOfNodes": ("load_aware", -1),
    "maxLandingRisk": ("load_aware", "1e999"),
    "sustainedFor": ("load_aware", "5 parsecs"),
    "nodeSelector": ("load_aware", "a in (b"),
    "windows": ("load_aware", [[[]]]),
    "steering": ("load_aware", "\x1b[2J"),
    "odd\u202ekey": ("load_aware", None),
    "ceilingMargin": ("load_aware", 82),
    "evictableNamespaces": ("load_aware", {"include": ["a"], "exclude": ["b"]}),
    "metrics": ("load_aware", {"type": "prometheus", "address": "prometheus"}),
    "priorityThreshold": ("evictor", {"value": 1, "name": "a"}),
    "minReplicas": ("evictor", 10**30),
    "minPodAge": ("evictor", 5),
    "labelSelector": ("evictor", {"matchLabels": {"a b": "c"}}),
}


def outcome(document: Any, *, as_yaml: bool) -> tuple[LoadedPolicy | None, str]:
    """What comes of a document: a policy, or why there is none."""
    text = yaml.safe_dump(document) if as_yaml else json.dumps(document)
    try:
        return parse_policy(text, "f"), ""
    except ConfigurationError as error:
        return None, str(error)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated(RICH) | mutated(PUBLISHED, most=8), st.booleans())
def test_any_damage_gives_a_policy_or_lines_that_can_be_shown(document: Any, as_yaml: bool) -> None:  # noqa: FBT001 (drawn)
    loaded, refusal = outcome(document, as_yaml=as_yaml)
    for line in refusal.splitlines() if loaded is None else loaded.warnings:
        assert re.match(r"f:\d+: .|… and \d+ more problems\.$", line)
        harmless(line)
    if loaded is not None:
        assert loaded.policy.rules
        assert all(isinstance(value, str) for value in loaded.policy.metrics.matchers.values())


@settings(deadline=None)
@given(st.sets(st.sampled_from(sorted(FAULTS)), min_size=1))
def test_every_one_of_many_faults_is_named(chosen: set[str]) -> None:
    changes: dict[str, dict[str, object]] = {"load_aware": {}, "evictor": {}}
    for key in chosen:
        where, value = FAULTS[key]
        changes[where][key] = value
    _, refusal = outcome(published(**changes), as_yaml=False)
    named = {key for key in FAULTS if re.search(rf"\.\"?{re.escape(_shown(key))}\b", refusal)}
    assert named == chosen
    assert len(refusal.splitlines()) == len(chosen)


def _shown(key: str) -> str:
    return key.encode("unicode_escape").decode()


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["cluster", "a b", '"', "__name__"]) | st.text(max_size=5),
        st.sampled_from(HARMFUL_TEXTS) | json_values,
        max_size=3,
    )
)
def test_matchers_of_any_shape_are_labels_with_their_texts_or_refused(matchers: Any) -> None:
    metrics = {"type": "prometheus", "matchers": matchers}
    loaded, refusal = outcome(published(load_aware={"metrics": metrics}), as_yaml=False)
    if loaded is None:
        assert refusal
        return
    # YAML takes a number such as 1e-320, without a point, for text.
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in matchers.items()}
    assert loaded.policy.metrics.matchers == texts
    assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", label) for label in matchers)


def test_the_documents_that_are_damaged_are_policies() -> None:
    for document in (RICH, PUBLISHED):
        loaded, refusal = outcome(document, as_yaml=True)
        assert loaded, refusal


@pytest.mark.parametrize("key", sorted(FAULTS))
def test_each_fault_is_one_by_itself(key: str) -> None:
    where, value = FAULTS[key]
    _, refusal = outcome(published(**{where: {key: value}}), as_yaml=False)
    assert len(refusal.splitlines()) == 1
