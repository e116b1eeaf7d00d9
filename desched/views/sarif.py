"""Findings as SARIF 2.1.0, which code scanning of GitHub, GitLab and editors read."""

from collections.abc import Iterable
from pathlib import PurePath
from urllib.parse import quote

from desched import __version__
from desched.policy.reading.findings import FindingRule, PolicyFinding

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
VERSION = "2.1.0"

_RULES = {
    FindingRule.FILE: "The file can be read as text.",
    FindingRule.YAML: "The file is YAML that JSON could express, without repeated keys.",
    FindingRule.DOCUMENT: "The file holds exactly one DeschedulerPolicy.",
    FindingRule.VALUE: "Every key is known, and every value is allowed and fits the others.",
    FindingRule.MEANING: "The policy means what its author may expect.",
}


def sarif_log(findings: Iterable[PolicyFinding]) -> dict[str, object]:
    """A log of one run; its rules are those of `FindingRule`."""
    rules = [
        {
            "id": rule.value,
            "shortDescription": {"text": text},
            "defaultConfiguration": {
                "level": "warning" if rule is FindingRule.MEANING else "error"
            },
        }
        for rule, text in _RULES.items()
    ]
    driver = {"name": "desched", "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _result(finding: PolicyFinding) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.place:
        line, column = finding.place
        location["region"] = {"startLine": line, "startColumn": column}
    return {
        "ruleId": finding.rule.value,
        "ruleIndex": list(_RULES).index(finding.rule),
        "level": finding.severity.value,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": location}],
    }


def _uri(file: str) -> str:
    """The file as a URI, relative as it was given."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
