import json
import textwrap

import pytest

from desched.errors import ConfigurationError
from desched.policy_file.loading import load_policy, parse_policy
from tests.unit.policy_file.published import PUBLISHED, PUBLISHED_TEXT, refusal

INNER = json.dumps(PUBLISHED, indent=2)


def config_map(key, text=INNER):
    return f"kind: ConfigMap\ndata:\n  {key}: |\n{textwrap.indent(text, '    ')}\n"


def cce(profiles=PUBLISHED["profiles"], **more):
    return json.dumps({"deschedulerPolicy": {"profiles": profiles}, **more}, indent=1)


@pytest.mark.parametrize(
    "text",
    [
        INNER,
        config_map("policy.yaml"),
        config_map("policy.yaml", f"---\n{INNER}") + "  other.txt: hello\n",
        config_map("my-policy.yml"),
        json.dumps({"kind": "ConfigMap", "data": {"policy.yaml": INNER}}),
        cce(descheduler_enable="true"),
        f"kind: Namespace\n---\n{config_map('policy.yaml')}---\n# nothing\n---\nkind: Deployment\n",
        f"kind: ConfigMap\ndata: {{a: b, c: d}}\n---\n{config_map('one-key')}",
        f"{INNER}\n---\nkind: ConfigMap\ndata: {{a: b}}\n",
        f"﻿{INNER}",
    ],
    ids=[
        "bare",
        "ConfigMap",
        "ConfigMap with two keys",
        "ConfigMap with one other key",
        "ConfigMap as JSON",
        "CCE",
        "several documents",
        "several ConfigMaps",
        "beside a ConfigMap",
        "byte order mark",
    ],
)
def test_the_policy_is_found_in_what_it_came_in(text, tmp_path):
    file = tmp_path / "given"
    file.write_text(text)
    found = load_policy(file).policy
    assert found.rules == parse_policy(INNER, "p").policy.rules


def test_a_mounted_config_map_is_read_by_its_directory(tmp_path):
    (tmp_path / "policy.yaml").write_text(INNER)
    loaded = load_policy(tmp_path)
    assert loaded.policy.source == str(tmp_path / "policy.yaml")


def test_lines_are_those_of_the_outer_file_even_behind_comments_and_blank_lines():
    text = PUBLISHED_TEXT.replace("policy.yaml: |", "policy.yaml: |  # here\n\n    # a comment\n")
    text = "# head\n---\n" + text.replace("cpu: 80", "cpu: 800")
    line = int(refusal(text).split(":")[1])
    assert text.splitlines()[line - 1].strip() == "cpu: 800"


def test_a_problem_in_a_quoted_policy_points_to_the_line_where_the_text_begins():
    inner = json.dumps(json.dumps({**PUBLISHED, "profiles": 1}, indent=2))
    text = f"kind: ConfigMap\ndata:\n  policy.yaml: {inner}\n"
    assert refusal(text) == "policy.yaml:3: profiles: found 1, allowed is a list."


def test_the_interval_of_cce_gets_a_warning_because_it_is_a_setting():
    text = cce(deschedulingInterval="10m")
    (warning,) = parse_policy(text, "p").warnings
    line = len(text.splitlines()) - 1
    assert warning.startswith(f"p:{line}: deschedulingInterval: is a setting, not policy")


def test_a_problem_in_the_wrapper_of_cce_has_its_line():
    text = cce([{"pluginConfigs": []}])
    line = text.splitlines().index('    "pluginConfigs": []') + 1
    assert (
        f"policy.yaml:{line}: profiles[0].pluginConfigs: unknown key, allowed are name, "
        'pluginConfig, plugins; did you mean "pluginConfig"?'
    ) in refusal(text)


def test_a_file_that_is_not_there_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none\.yaml: the policy cannot be read: No such"):
        load_policy(tmp_path / "none.yaml")


def test_a_file_that_is_not_text_is_refused_with_the_line_where_it_stops_being_so(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_bytes(b"kind: x\n\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"policy\.yaml:2: the file is not UTF-8 text"):
        load_policy(file)


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigurationError, match="larger than 1 MiB"):
        load_policy(file)


def test_one_file_holds_one_policy():
    assert "the file has 2 documents, of which 2 hold a policy" in refusal(f"{INNER}\n---\n{INNER}")
