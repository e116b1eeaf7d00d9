import json
import subprocess
import sys

import jsonschema
import pytest

from desched.policy.reference import json_schema, reference
from desched.policy.schema_values import Section
from desched.policy.sections import all_sections, keys
from tests.unit.policy.published import POLICIES, REPOSITORY

GENERATED = {
    REPOSITORY / "docs" / "policy-reference.md": [],
    POLICIES / "desched-policy.schema.json": ["--schema"],
}


@pytest.mark.parametrize("file", GENERATED, ids=lambda file: file.name)
def test_the_committed_file_is_what_the_command_prints(file):
    command = [sys.executable, "-m", "desched.policy.reference", *GENERATED[file]]
    printed = subprocess.run(  # noqa: S603 (our own module)
        command, capture_output=True, check=True, cwd=REPOSITORY, encoding="utf-8"
    ).stdout
    assert file.read_text() == printed, f"run: python {' '.join(command[1:])} > {file}"


def test_the_json_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema()))


def test_every_key_of_every_section_is_described_in_the_reference():
    text = reference()
    described: set[type[Section]] = set()
    for _place, section in all_sections():
        described.add(section)
        for key, field in keys(section).items():
            assert field.description
            assert f"| `{key}` |" in text
    assert len(described) == text.count("\n## ")
