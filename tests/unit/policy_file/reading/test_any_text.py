"""Whatever a file holds, the answer is a policy or a ConfigurationError with a line."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from desched.errors import ConfigurationError
from desched.policy_file.loading import parse_policy
from tests.unit.policy_file.published import PUBLISHED_TEXT

SHORT = settings(max_examples=150, deadline=None)
YAML_PIECES = [
    "a",
    ":",
    " ",
    "\n",
    "-",
    "[",
    "]",
    "{",
    "}",
    "&x",
    "*x",
    "!",
    "|",
    ">",
    '"',
    "'",
    "\\",
    "#",
    "---",
    "...",
    "%",
    "<<",
    "? ",
    "1",
    ".nan",
    "0x",
    "0b_",
    "1:30",
    "~",
    "\t",
    ",",
]


def answer(text: str) -> None:
    try:
        loaded = parse_policy(text, "f")
    except ConfigurationError as error:
        for line in str(error).splitlines():
            assert re.match(r"f:\d+: .*[.?]$|… and \d+ more problems\.$", line), line
    else:
        assert loaded.policy.rules


@SHORT
@given(st.text(max_size=200) | st.lists(st.sampled_from(YAML_PIECES)).map("".join))
def test_any_text_gives_a_policy_or_a_configuration_error(text):
    answer(text)


@SHORT
@given(st.text(max_size=8), st.integers(0, len(PUBLISHED_TEXT)), st.integers(0, 20))
def test_any_damage_to_the_published_text_gives_a_policy_or_a_configuration_error(
    inserted, position, removed
):
    answer(PUBLISHED_TEXT[:position] + inserted + PUBLISHED_TEXT[position + removed :])
