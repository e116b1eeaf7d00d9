"""What `desched validate` prints: the findings of policy files, for people and programs."""

import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, assert_never

import yaml

from desched.model.text import on_one_line
from desched.policy.reading.findings import PolicyFinding, Severity
from desched.views.formatting import count
from desched.views.rendering import json_text

FindingsFormat = Literal["table", "json", "yaml", "github"]
NARROWEST = 40
_INDENT = "    "


class ValidatedFile(NamedTuple):
    """A file by the name that the user gave it, with what was found in it."""

    name: str
    findings: tuple[PolicyFinding, ...]

    def count(self, severity: Severity) -> int:
        """The number of findings of this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def valid(self) -> bool:
        """Whether desched can run the policy."""
        return not self.count(Severity.ERROR)


def render_findings(files: Sequence[ValidatedFile], form: FindingsFormat, width: int) -> str:
    """The findings of all files in one of the formats, ending in a newline; maybe empty."""
    match form:
        case "table":
            return _table(files, max(width, NARROWEST))
        case "json":
            return json_text(_document(files))
        case "yaml":
            return yaml.safe_dump(_document(files), sort_keys=False)
        case "github":
            return "".join(_annotation(each) for file in files for each in file.findings)
        case _:
            assert_never(form)


def _document(files: Iterable[ValidatedFile]) -> dict[str, object]:
    return {
        "files": [
            {
                "file": file.name,
                "valid": file.valid,
                "errors": file.count(Severity.ERROR),
                "warnings": file.count(Severity.WARNING),
                "findings": [_row(finding) for finding in file.findings],
            }
            for file in files
        ]
    }


def _row(finding: PolicyFinding) -> dict[str, object]:
    return {
        "severity": finding.severity.value,
        "rule": finding.rule.value,
        "line": finding.place.line if finding.place else None,
        "column": finding.place.column if finding.place else None,
        "key": finding.key or None,
        "message": on_one_line(finding.text),
        "instead": on_one_line(finding.instead) or None,
    }


def _table(files: Sequence[ValidatedFile], width: int) -> str:
    out = io.StringIO()
    for file in files:
        for finding in file.findings:
            key = f" {on_one_line(finding.key)}" if finding.path else ""
            out.write(f"{located(finding)}: {finding.severity.value}:{key}\n")
            text = on_one_line(finding.text)
            out.write(textwrap.fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT))
            out.write("\n")
        if file.valid:
            out.write(f"{file.name}: valid\n")
    invalid = sum(not file.valid for file in files)
    errors, warnings = (sum(file.count(each) for file in files) for each in Severity)
    found = f"{count(errors, 'error')} and {count(warnings, 'warning')}"
    out.write(f"{count(len(files), 'file')}, {invalid} invalid: {found}.\n")
    return out.getvalue()


def located(finding: PolicyFinding) -> str:
    """The place of a finding as compilers write it: `FILE:LINE:COLUMN`."""
    return ":".join([finding.file, *map(str, finding.place or ())])


def _annotation(finding: PolicyFinding) -> str:
    """The finding as a workflow command of GitHub."""
    properties = {"file": finding.file}
    if finding.place:
        properties |= {"line": str(finding.place.line), "col": str(finding.place.column)}
    properties["title"] = finding.rule.value
    listed = ",".join(f"{name}={_escaped(text, ':,')}" for name, text in properties.items())
    return f"::{finding.severity.value} {listed}::{_escaped(finding.message)}\n"


def _escaped(text: str, further: str = "") -> str:
    for character in f"%\r\n{further}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
