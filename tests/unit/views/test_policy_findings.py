import json

import yaml

from desched.policy_keys.findings import FindingRule, Place, PolicyFinding
from desched.views.policy_findings import (
    Findings,
    ValidatedFile,
    finding_blocks,
    github_commands,
)
from desched.views.rendering import ReportFormat, rendered
from tests.shown import text_of

WRONG = PolicyFinding("a:b,%.yaml", Place(3, 7), ("profiles", 0, "x"), "wrong %.", instead="80")
UNEXPECTED = PolicyFinding(
    "é b.yaml", Place(4, 1), (), "has no effect\nat all.", FindingRule.MEANING
)
UNREADABLE = PolicyFinding("/none", None, (), "the policy cannot be read.", FindingRule.FILE)
FILES = (
    ValidatedFile("a:b,%.yaml", (WRONG,)),
    ValidatedFile("é b.yaml", (UNEXPECTED,)),
    ValidatedFile("/none", (UNREADABLE,)),
    ValidatedFile("good.yaml", ()),
)


def shown(form: ReportFormat) -> str:
    return rendered(Findings(FILES), finding_blocks(Findings(FILES)), form)


def test_the_table_has_each_finding_where_editors_find_it() -> None:
    assert shown("table").splitlines() == [
        "a:b,%.yaml:3:7: error: profiles[0].x",
        "    wrong %.",
        "é b.yaml:4:1: warning:",
        r"    has no effect\nat all.",
        "é b.yaml: valid",
        "/none: error:",
        "    the policy cannot be read.",
        "good.yaml: valid",
        "4 files, 2 invalid: 2 errors and 1 warning.",
    ]


def test_sentences_fit_the_terminal() -> None:
    long = PolicyFinding("f", Place(1, 1), (), "word " * 40)
    text = text_of(finding_blocks(Findings((ValidatedFile("f", (long,)),))), 50)
    assert max(map(len, text.splitlines())) <= 50


def test_json_and_yaml_have_everything() -> None:
    document = json.loads(shown("json"))
    assert yaml.safe_load(shown("yaml")) == document
    first, _, unreadable, good = document["files"]
    assert first == {
        "file": "a:b,%.yaml",
        "valid": False,
        "errors": 1,
        "warnings": 0,
        "findings": [
            {
                "severity": "error",
                "rule": "policy-value",
                "line": 3,
                "column": 7,
                "key": "profiles[0].x",
                "message": "wrong %.",
                "instead": "80",
            }
        ],
    }
    assert unreadable["findings"][0]["line"] is None
    assert good["valid"]


def test_annotations_are_commands_of_github() -> None:
    assert github_commands(Findings(FILES)).splitlines() == [
        "::error file=a%3Ab%2C%25.yaml,line=3,col=7,title=policy-value::profiles[0].x: wrong %25.",
        r"::warning file=é b.yaml,line=4,col=1,title=policy-meaning::has no effect\nat all.",
        "::error file=/none,title=policy-file::the policy cannot be read.",
    ]
