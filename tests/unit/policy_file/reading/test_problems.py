"""One case for each thing that a person can get wrong: where it is said to be, and how."""

import pytest

from desched.policy_file.upstream_plugins import COUNTERPARTS, UPSTREAM_PLUGINS
from tests.unit.policy_file.published import PUBLISHED, PUBLISHED_TEXT, published, refusal


def metrics(**keys):
    return published(load_aware={"metrics": {"type": "prometheus", **keys}})


def profile(**keys):
    return {**PUBLISHED, "profiles": [{**PUBLISHED["profiles"][0], **keys}]}


@pytest.mark.parametrize(
    "address",
    [
        "http://admin:secret@prometheus",
        "http://admin:secret#1@prometheus",
        "http://admin:secret/1@prometheus",
        "http://admin:[secret@prometheus",
        "admin:secret@prometheus",
        "http://prometheus/?token=secret",
        "htp://prometheus/?token=secret",
    ],
)
def test_a_refused_password_is_not_repeated(address):
    assert "secret" not in refusal(metrics(address=address))


@pytest.mark.parametrize("plugin", sorted(COUNTERPARTS))
def test_a_plugin_that_load_aware_stands_in_for_is_refused_with_that(plugin):
    text = refusal(profile(plugins={"balance": {"enabled": [plugin]}}))
    advice = "`desched policy convert` translates it to LoadAware."
    assert f"{plugin} is a plugin of {UPSTREAM_PLUGINS[plugin]}; {advice}" in text


@pytest.mark.parametrize("plugin", sorted(UPSTREAM_PLUGINS.keys() - COUNTERPARTS))
def test_an_enabled_plugin_of_others_is_refused_with_the_name_of_who_runs_it(plugin):
    text = refusal(profile(plugins={"balance": {"enabled": ["LoadAware", {"name": plugin}]}}))
    assert (
        f"profiles[0].plugins.balance.enabled[1]: {plugin} is a plugin of "
        f"{UPSTREAM_PLUGINS[plugin]}, which can run it beside desched; desched does not have it"
    ) in text


def test_each_plugin_of_others_is_put_down_to_those_who_have_it():
    assert UPSTREAM_PLUGINS["LowNodeLoad"] == "Koordinator's descheduler"
    assert "Volcano" in UPSTREAM_PLUGINS["LowNodeUtilization"]


def test_all_mistakes_are_listed_each_with_its_own_line_in_the_outer_file():
    text = PUBLISHED_TEXT.replace("type: Prometheus", "type: null").replace(
        "nodeFit: true", "nodeFitt: true"
    )
    lines = text.splitlines()
    problems = refusal(text).splitlines()
    pointed_at = [lines[int(problem.split(":")[1]) - 1].strip() for problem in problems]
    assert pointed_at == ["nodeFitt: true", "type: null"]


def test_a_missing_key_points_to_the_section_that_lacks_it():
    text = PUBLISHED_TEXT.replace("          thresholds:", "          evictionLimits:").replace(
        "            cpu: 30\n            memory: 30\n", "            total: 1\n"
    )
    section = PUBLISHED_TEXT.splitlines().index("      - args:", 15)
    missing = next(line for line in refusal(text).splitlines() if "is missing" in line)
    assert int(missing.split(":")[1]) == section + 1


def test_a_misspelt_key_is_not_reported_as_missing_too():
    (line,) = refusal(PUBLISHED_TEXT.replace("targetThresholds", "targetTresholds")).splitlines()
    assert line.endswith('did you mean "targetThresholds"?')


def test_a_key_that_would_break_the_line_is_spelt_out():
    text = refusal({**PUBLISHED, "a\nb\x1b[1m": 1, "": 2})
    assert r'policy.yaml:1: "a\nb\x1b[1m": unknown key' in text
    assert 'policy.yaml:1: "": unknown key' in text
    assert len(text.splitlines()) == 2


def test_a_flood_of_mistakes_is_cut_short_and_counted():
    lines = refusal({**PUBLISHED, **{f"key{n:03}": 1 for n in range(200)}}).splitlines()
    assert len(lines) == 31
    assert lines[-1] == "… and 170 more problems."
