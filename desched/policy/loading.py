"""Reads policies: the only module here that touches files."""

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from desched.errors import ConfigurationError
from desched.model.text import on_one_line
from desched.policy.document.root import API_VERSION, KIND, DeschedulerPolicy
from desched.policy.policy import Policy
from desched.policy.reading.envelope import CCE_KEY, POLICY_KEY, find_policy
from desched.policy.reading.problems import Notes, schema_problems
from desched.policy.reading.yaml_source import LARGEST_TEXT
from desched.policy.resolution.resolution import resolve

_DIGEST_CHARACTERS = 12


class LoadedPolicy(NamedTuple):
    """A policy, and what its author may not expect of it, one sentence each with file and line."""

    policy: Policy
    warnings: tuple[str, ...]


class PolicyText(NamedTuple):
    """A policy as it is in its file, and how messages name the file."""

    text: str
    source: str


def load_policy(path: Path) -> LoadedPolicy:
    """The policy in a file, or in the `policy.yaml` of a directory (a mounted ConfigMap).

    Raises:
        ConfigurationError: it cannot be read, or it is not a policy that desched can run.
    """
    return parse_policy(*read_policy(path))


def read_policy(path: Path) -> PolicyText:
    """The text of the policy in a file or directory, as for `load_policy`.

    Raises:
        ConfigurationError: it cannot be read.
    """
    file = path / POLICY_KEY if path.is_dir() else path
    name = on_one_line(str(file))
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_TEXT + 1)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise ConfigurationError(
            f"{name}: the policy cannot be read: {reason}. "
            "Check the path that --policy gives, and the volume that it is mounted from."
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{name}:{line}: the file is not UTF-8 text; check that this is the right file."
        ) from error
    return PolicyText(text, name)


def parse_policy(text: str, source: str) -> LoadedPolicy:
    """The policy in a text; `source` is what messages call it.

    Raises:
        ConfigurationError: lists all that is wrong, as `FILE:LINE: key.path: sentence` lines.
    """
    document, base = find_policy(text, source)
    value, notes, settings = document.value, Notes(document, base), Notes(document)
    if base and isinstance(value, dict):
        value = _unwrapped(value, settings)
    canonical = json.dumps(value, sort_keys=True)
    try:
        parsed = DeschedulerPolicy.model_validate_json(canonical)
    except ValidationError as error:
        notes.problems.extend(schema_problems(error, value))
        raise notes.error() from error
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    policy = resolve(parsed, source, digest, notes)
    if policy is None:
        raise notes.error()
    warnings = (*settings.lines(settings.warnings), *notes.lines(notes.warnings))
    return LoadedPolicy(policy, warnings)


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
