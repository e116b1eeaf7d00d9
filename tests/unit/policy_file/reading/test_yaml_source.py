import pytest

from desched.policy_file.reading.yaml_source import DEEPEST_NESTING, Frame, read_documents
from desched.policy_keys.findings import InvalidPolicy


def only(text):
    (document,) = read_documents(text, Frame("f"))
    return document


def problems(text):
    """What is wrong with the form of the text, as lines."""
    try:
        documents = read_documents(text, Frame("f"))
    except InvalidPolicy as error:
        return str(error)
    return "\n".join(finding.line for each in documents for finding in each.findings)


def test_values_are_those_of_json_and_dates_and_keys_stay_texts():
    text = """
    text: plain
    quoted: "80"
    whole: 80
    octal: 0o17
    old octal: 017
    hex: 0x1F
    zero: 0
    exact: 80.5
    endless: .inf
    yes: no
    nothing: ~
    date: 2024-01-01
    5: five
    list: [1, {a: b}]
    block: |
      two
      lines
    """
    value = only(text).value
    assert value == {
        "text": "plain",
        "quoted": "80",
        "whole": 80,
        "octal": "0o17",
        "old octal": 15,
        "hex": 31,
        "zero": 0,
        "exact": 80.5,
        "endless": float("inf"),
        "yes": False,
        "nothing": None,
        "date": "2024-01-01",
        "5": "five",
        "list": [1, {"a": "b"}],
        "block": "two\nlines\n",
    }


def test_every_key_and_item_knows_its_line_and_a_missing_key_that_of_its_parent():
    document = only("a:\n  b: 1\n  c:\n  - x\n  - d: 2\n")
    assert document.place_of(("a", "b")).line == 2
    assert document.place_of(("a", "c", 1, "d")).line == 5
    assert document.place_of(("a", "c", 1, "e")).line == 5
    assert document.place_of(("a", "z", "y")).line == 1


def test_aliases_stand_for_what_they_repeat():
    assert only("a: &x {b: 1}\nc: *x\n").value == {"a": {"b": 1}, "c": {"b": 1}}


LAUGHS = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 9)
)

REFUSED = {
    "a: 1\nb: 2\na: 3": "f:3: a: is repeated, the first is in line 1",
    "a: [": "f:1: this is not valid YAML",
    "a: b: c": "f:1: this is not valid YAML: mapping values are not allowed here.",
    "a: \x00": "f:1: this is not valid YAML: special characters are not allowed.",
    "? [a]\n: b": "f:1: a key must be a text",
    "x: &x {a: 1}\ny:\n  <<: *x": 'f:3: y: merge keys ("<<") are not supported',
    "a: *nowhere": "f:1: this is not valid YAML: found undefined alias",
    "a: !!python/object:os.system x": 'cannot have the tag "tag:yaml.org,2002:python/object:',
    "a: !!set {b}": 'f:1: a: the tag "tag:yaml.org,2002:set" is not supported',
    "a: !!map [b]": 'f:1: a: the tag "tag:yaml.org,2002:map" is not supported',
    "a: !own [b]": 'f:1: a: the tag "!own" is not supported',
    "a: !!int many": 'f:1: a: "many" cannot be read as int',
    "a: !!int ''": 'f:1: a: "" cannot be read as int',
    "a: 1:30": 'f:1: a: "1:30" cannot be read as int',
    "a: !!bool many": 'f:1: a: "many" cannot be read as bool',
    'a: "\\ud800"': "f:1: a: a text holds half of a surrogate pair.",
    '"\\ud800": a': "f:1: a text holds half of a surrogate pair.",
    "a: " + "9" * 5000: 'cannot have the tag "tag:yaml.org,2002:int"',
    "["
    * 200_000: f"f:1: this is not valid YAML: it holds more than 20000 values or {DEEPEST_NESTING} "
    "levels.",
    "a: &a [*a]": "or 32 levels, counting what its aliases repeat",
    LAUGHS: "the document holds more than 20000 values",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_json_could_not_say_is_refused_with_its_line(text):
    assert REFUSED[text] in problems(text)


def test_a_text_that_is_too_large_is_refused():
    assert "f:1: the file is larger than 1 MiB" in problems("ä" * (512 * 1024 + 1))
