"""Reads policies: the only module here that touches files."""

import hashlib
import json
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import ValidationError

from desched.model.text import on_one_line
from desched.policy.policy import Policy
from desched.policy_file.reading.envelope import CCE_KEY, POLICY_KEY, find_policy
from desched.policy_file.reading.problems import schema_problems, unfilled
from desched.policy_file.reading.valid_part import valid_part
from desched.policy_file.reading.yaml_source import LARGEST_TEXT
from desched.policy_file.sections.root import DeschedulerPolicy, resolve
from desched.policy_keys.findings import (
    FindingRule,
    InvalidPolicy,
    Place,
    PolicyFinding,
    in_order,
    refused,
)
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import API_VERSION, KIND

STANDARD_INPUT = "-"
_DIGEST_CHARACTERS = 12


class LoadedPolicy(NamedTuple):
    """A policy, and what its author may not expect of it, one sentence each with file and line."""

    policy: Policy
    warnings: tuple[str, ...]


class PolicyText(NamedTuple):
    """A policy as it is in its file, and how messages name the file."""

    text: str
    source: str


class Validation(NamedTuple):
    """All that was found in a text, and the policy unless a finding is an error."""

    policy: Policy | None
    findings: tuple[PolicyFinding, ...]


def load_policy(path: Path) -> LoadedPolicy:
    """The policy in a file, or in the `policy.yaml` of a directory (a mounted ConfigMap).

    Raises:
        InvalidPolicy: it cannot be read, or it is not a policy that desched can run.
    """
    return parse_policy(*read_policy(path))


def read_policy(path: Path) -> PolicyText:
    """The text of the policy in a file or directory, as for `load_policy`.

    Raises:
        InvalidPolicy: it cannot be read, or is not text.
    """
    file = path / POLICY_KEY if path.is_dir() else path
    name = on_one_line(str(file))
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_TEXT + 1)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        text = (
            f"the policy cannot be read: {reason}. "
            "Check the path, and the volume that it is mounted from."
        )
        raise InvalidPolicy([PolicyFinding(name, None, (), text, FindingRule.FILE)]) from error
    return PolicyText(_decoded(content, name), name)


def shown_name(argument: str) -> str:
    """How messages name the file of an argument; `-` is standard input."""
    return "<stdin>" if argument == STANDARD_INPUT else on_one_line(argument)


def policy_argument(argument: str, standard_input: BinaryIO) -> PolicyText:
    """The text of the file that an argument names, or of standard input for `-`.

    Raises:
        InvalidPolicy: it cannot be read, or is not text.
    """
    if argument != STANDARD_INPUT:
        return read_policy(Path(argument))
    name = shown_name(argument)
    return PolicyText(_decoded(standard_input.read(LARGEST_TEXT + 1), name), name)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        text = "the file is not UTF-8 text; check that this is the right file."
        if content.startswith(_UTF_16):
            text = "the file is UTF-16 text, as PowerShell writes it; save it as UTF-8."
        raise refused(name, Place(line), text, FindingRule.FILE) from error


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def parse_policy(text: str, source: str) -> LoadedPolicy:
    """The policy in a text; `source` is what messages call it.

    Raises:
        InvalidPolicy: lists all that is wrong, as `FILE:LINE: key.path: sentence` lines.
    """
    policy, findings = validate_policy(text, source)
    if policy is None:
        raise InvalidPolicy(findings)
    return LoadedPolicy(policy, tuple(finding.line for finding in findings))


def validate_policy(text: str, source: str) -> Validation:
    """All that is wrong with the policy in a text or worth knowing of it, and the policy itself."""
    try:
        document, base = find_policy(text, source)
    except InvalidPolicy as error:
        return Validation(None, error.findings)
    findings = list(document.findings)
    value = document.value
    if base and isinstance(value, dict):
        value = _unwrapped(value, Notes(document, findings=findings))
    canonical = json.dumps(value, sort_keys=True)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    malformed = frozenset(finding.path[len(base) :] for finding in document.findings)
    notes = Notes(document, base, broken=malformed, findings=findings)
    for problem in unfilled(value):
        notes = notes.after(problem)
    try:
        parsed = DeschedulerPolicy.model_validate_json(canonical)
    except ValidationError as error:
        problems = schema_problems(error, value, DeschedulerPolicy)
        notes = notes.after(*problems)
        # What remains is resolved as well, so that all problems are found at once.
        remains = valid_part(value, (problem.path for problem in problems))
        try:
            parsed = DeschedulerPolicy.model_validate_json(json.dumps(remains))
        except ValidationError:
            return Validation(None, in_order(findings))
    return Validation(resolve(parsed, source, digest, notes), in_order(findings))


def _unwrapped(wrapper: dict[str, object], notes: Notes) -> object:
    """The policy in Huawei CCE's settings, which leave its apiVersion and kind out."""
    if "deschedulingInterval" in wrapper:
        notes.warn(
            "is a setting, not policy; start desched with --interval.", "deschedulingInterval"
        )
    inner = wrapper[CCE_KEY]
    if not isinstance(inner, dict):
        return inner
    return {"apiVersion": API_VERSION, "kind": KIND, **inner}
