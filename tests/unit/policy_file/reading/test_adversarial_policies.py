"""Policy files that are large, deep, or not what they seem: one error with a line, and soon."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from desched.errors import ConfigurationError
from desched.policy_file.loading import load_policy, parse_policy
from desched.policy_file.reading.yaml_source import LARGEST_TEXT, MOST_VALUES
from tests.unit.policy_file.published import PUBLISHED_TEXT

LAUGHS = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}' if before else 'ha'] * 9)}]\n"
    for before, name in zip(["", *"abcdefghi"], "abcdefghij", strict=True)
)


def filled(text: str) -> str:
    return text * (LARGEST_TEXT // len(text.encode()))


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_policy(text, "f")
    for line in str(caught.value).splitlines():
        assert re.match(r"f:\d+: ", line)
        assert len(line) < 500
        assert line.isprintable()
    return str(caught.value)


@pytest.mark.parametrize("text", [filled("- a\n"), filled("--- a\n")], ids=["values", "documents"])
def test_a_file_of_a_megabyte_is_not_read_to_its_end(text: str) -> None:
    assert f"more than {MOST_VALUES} values" in refusal(text)


@pytest.mark.parametrize("text", [filled("- "), filled("["), filled("{a: "), filled("? ")])
def test_nesting_without_end_is_refused(text: str) -> None:
    assert "values or 32 levels" in refusal(text)


def test_aliases_that_multiply_are_refused() -> None:
    assert "write it without aliases" in refusal(LAUGHS)


@pytest.mark.parametrize(
    "text", [f"a: {'9' * 10**5}", f"a: !{'x' * 10**5} b", f"{'k' * 10**5}: v", "a: 1e999999999"]
)
def test_what_is_long_is_not_repeated_at_length(text: str) -> None:
    refusal(text)


def test_more_than_a_megabyte_is_refused() -> None:
    assert "larger than 1 MiB" in refusal(filled("a") + "a")


def test_a_key_that_stands_there_twice_is_named_with_both_lines() -> None:
    assert "is repeated, the first is in line 1" in refusal("kind: a\nkind: b\n")


def test_terminal_escapes_are_spelt_out() -> None:
    assert r"\x1b[2J" in refusal('kind: "\\e[2J"\napiVersion: descheduler/v1alpha2\n')
    assert r"\u202e" in refusal("apiVersion: \u202e\n")


@pytest.mark.parametrize("encode", [str.encode, lambda text: b"\xef\xbb\xbf" + text.encode()])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(
    tmp_path: Path, encode: Callable[[str], bytes], ending: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(encode(PUBLISHED_TEXT.replace("\n", ending)))
    assert load_policy(file).policy.digest == parse_policy(PUBLISHED_TEXT, "f").policy.digest


@pytest.mark.parametrize("content", [b"a: \xff\n", "kind: x\n".encode("utf-16")])
def test_what_is_not_utf_8_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"policy\.yaml:1: .*UTF-8"):
        load_policy(file)


def test_a_file_of_any_name_is_called_by_a_name_that_can_be_shown(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b[2J\xc2\x9b.yaml"))
    file.write_text(PUBLISHED_TEXT)
    source = load_policy(file).policy.source
    assert source.isprintable()
    assert source.encode()
