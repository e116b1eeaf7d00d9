"""What `desched validate` prints: the findings of policy files, for people and programs."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from rich.padding import Padding

from desched.model.text import on_one_line
from desched.policy_keys.findings import PolicyFinding, Severity
from desched.views.blocks import Block, in_one_piece, styled
from desched.views.rendering import View
from desched.wording.formatting import count


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


class Findings(View, msgspec.Struct, frozen=True):
    """What was found in all files."""

    files: tuple[ValidatedFile, ...]

    @property
    def document(self) -> Mapping[str, object]:
        """The files with their counts and findings."""
        return {
            "files": [
                {
                    "file": file.name,
                    "valid": file.valid,
                    "errors": file.count(Severity.ERROR),
                    "warnings": file.count(Severity.WARNING),
                    "findings": [_row(finding) for finding in file.findings],
                }
                for file in self.files
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


def finding_blocks(found: Findings) -> Iterator[Block]:
    """Each finding where editors look for it, and a summary."""
    files = found.files
    for file in files:
        for finding in file.findings:
            key = f" {finding.key}" if finding.path else ""
            yield in_one_piece(f"{located(finding)}: {finding.severity.value}:{key}")
            yield Padding(styled(finding.text, ""), (0, 0, 0, 4))
        if file.valid:
            yield in_one_piece(f"{file.name}: valid")
    invalid = sum(not file.valid for file in files)
    errors, warnings = (sum(file.count(severity) for file in files) for severity in Severity)
    numbers = f"{count(errors, 'error')} and {count(warnings, 'warning')}"
    yield f"{count(len(files), 'file')}, {invalid} invalid: {numbers}."


def github_commands(findings: Findings) -> str:
    """The findings as workflow commands of GitHub, each on a line."""
    return "".join(_annotation(finding) for file in findings.files for finding in file.findings)


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
