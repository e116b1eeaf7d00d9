"""In a process of its own, because this one has loaded all commands."""

import subprocess
import sys

PROGRAM = """
import sys
from desched.cli.lazy_loading import load_declaration, load_to_run

declared = load_declaration("policy diff")
assert declared.COMMAND.full_name == "policy diff"
assert not hasattr(declared, "Policy")
assert "desched.commands.policy_diff" not in sys.modules

from desched.commands.policy_diff import Policy
assert load_to_run("policy diff").Policy is Policy
assert load_declaration("policy diff") is load_to_run("policy diff")
"""


def test_a_declaration_is_quick_and_whoever_imports_its_module_gets_all_of_it() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)  # noqa: S603  (ours)
