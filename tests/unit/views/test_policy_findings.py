import json
from typing import Any

import jsonschema
import pytest
import yaml

from desched.policy.reading.findings import FindingRule, Place, PolicyFinding
from desched.views.policy_findings import (
    FindingsFormat,
    ValidatedFile,
    render_findings,
)
from desched.views.sarif import sarif_log

WRONG = PolicyFinding("a:b,%.yaml", Place(3, 7), ("profiles", 0, "x"), "wrong %.", instead="80")
UNEXPECTED = PolicyFinding(
    "é b.yaml", Place(4, 1), (), "has no effect\nat all.", FindingRule.MEANING
)
UNREADABLE = PolicyFinding("/none", None, (), "the policy cannot be read.", FindingRule.FILE)
FILES = [
    ValidatedFile("a:b,%.yaml", (WRONG,)),
    ValidatedFile("é b.yaml", (UNEXPECTED,)),
    ValidatedFile("/none", (UNREADABLE,)),
    ValidatedFile("good.yaml", ()),
]
RULES = [rule.value for rule in FindingRule]


def rendered(form: FindingsFormat, width: int = 100) -> str:
    return render_findings(FILES, form, width)


def test_the_table_has_each_finding_where_editors_find_it() -> None:
    assert rendered("table").splitlines() == [
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
    text = render_findings([ValidatedFile("f", (long,))], "table", 50)
    assert max(map(len, text.splitlines())) <= 50


def test_json_and_yaml_have_everything() -> None:
    document = json.loads(rendered("json"))
    assert yaml.safe_load(rendered("yaml")) == document
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
    assert rendered("github").splitlines() == [
        "::error file=a%3Ab%2C%25.yaml,line=3,col=7,title=policy-value::profiles[0].x: wrong %25.",
        r"::warning file=é b.yaml,line=4,col=1,title=policy-meaning::has no effect\nat all.",
        "::error file=/none,title=policy-file::the policy cannot be read.",
    ]


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


_TEXT = {"type": "string", "minLength": 1}
_MESSAGE = _object("text", text=_TEXT)
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_COUNT = {"type": "integer", "minimum": 1}
_PLACE = _object(
    "artifactLocation",
    artifactLocation=_object("uri", uri={"type": "string", "pattern": r"^[!-~]+$"}),
    region=_object("startLine", startLine=_COUNT, startColumn=_COUNT),
)
_RESULT = _object(
    "message ruleId level locations",
    ruleId={"enum": RULES},
    ruleIndex={"type": "integer", "minimum": 0, "maximum": len(RULES) - 1},
    level=_LEVEL,
    message=_MESSAGE,
    locations={"type": "array", "items": _object("physicalLocation", physicalLocation=_PLACE)},
)
_RULE = _object(
    "id",
    id={"enum": RULES},
    shortDescription=_MESSAGE,
    defaultConfiguration=_object("level", level=_LEVEL),
)
_DRIVER = _object(
    "name",
    name=_TEXT,
    semanticVersion=_TEXT,
    rules={"type": "array", "items": _RULE, "uniqueItems": True},
)
_RUN = _object(
    "tool",
    tool=_object("driver", driver=_DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results={"type": "array", "items": _RESULT},
)
SARIF = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(
        "version runs",
        **{"$schema": {"type": "string", "format": "uri"}},
        version={"const": "2.1.0"},
        runs={"type": "array", "items": _RUN},
    ),
}
"""The part of the schema of SARIF 2.1.0 that is used, with its names and types."""


@pytest.mark.parametrize("findings", [[], [WRONG, UNEXPECTED, UNREADABLE]])
def test_sarif_has_the_structure_of_its_standard(findings: list[PolicyFinding]) -> None:
    log = sarif_log(findings)
    jsonschema.Draft202012Validator(SARIF).validate(log)
    run: Any = log["runs"]
    rules = run[0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == RULES
    for result, finding in zip(run[0]["results"], findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.rule
        assert result["message"]["text"] == finding.message


def test_sarif_names_files_by_uri() -> None:
    results: Any = json.loads(rendered("sarif"))["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "a%3Ab%2C%25.yaml",
        "%C3%A9%20b.yaml",
        "file:///none",
    ]
    assert places[0]["region"] == {"startLine": 3, "startColumn": 7}
    assert "region" not in places[2]
