"""Policy files that a command is given as arguments."""

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from desched.policy.loading import PolicyText

STANDARD_INPUT = "-"


def shown_name(name: str) -> str:
    """How messages name the file."""
    from desched.model.text import on_one_line

    return "<stdin>" if name == STANDARD_INPUT else on_one_line(name)


def policy_text(name: str, standard_input: BinaryIO) -> "PolicyText":
    """The text of a file, or of standard input for `-`.

    Raises:
        InvalidPolicy: it cannot be read, or is not text.
    """
    from desched.policy.loading import PolicyText, decoded, read_policy
    from desched.policy.reading.yaml_source import LARGEST_TEXT

    if name != STANDARD_INPUT:
        return read_policy(Path(name))
    source = shown_name(name)
    return PolicyText(decoded(standard_input.read(LARGEST_TEXT + 1), source), source)
