import io
import json
import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.cli import main
from desched.errors import ConfigurationError
from desched.policy_file.loading import load_policy
from tests.unit.policy_file.published import POLICIES, PUBLISHED_TEXT

GOOD = str(POLICIES / "cautious.yaml")
WARNED = PUBLISHED_TEXT.replace("nodeFit: true", "nodeFit: false")
BAD = PUBLISHED_TEXT.replace("cpu: 80", "cpu: 0.8")


@pytest.fixture
def files(tmp_path):
    """Paths of files with these contents, in their order."""

    def write(*texts):
        paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return [str(path) for path in paths]

    return write


@pytest.mark.parametrize(
    ("texts", "flags", "code"),
    [
        ([PUBLISHED_TEXT], [], 0),
        ([PUBLISHED_TEXT], ["--strict"], 0),
        ([WARNED], [], 0),
        ([WARNED], ["--strict"], 1),
        ([PUBLISHED_TEXT, WARNED], ["--strict"], 1),
        ([WARNED, BAD], ["--strict"], 2),
        ([PUBLISHED_TEXT, BAD], [], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(files, capsys, texts, flags, code):
    assert main(["validate", *files(*texts), *flags]) == code
    printed = capsys.readouterr()
    assert printed.out.count("\n") >= len(texts)
    assert not printed.err


def test_a_file_that_is_not_there_does_not_hide_the_others(files, capsys):
    (bad,) = files(BAD)
    assert main(["validate", "/none/p.yaml", bad, GOOD, "-o", "json"]) == 2
    rows = json.loads(capsys.readouterr().out)["files"]
    assert [(row["file"], row["errors"]) for row in rows] == [
        ("/none/p.yaml", 1),
        (bad, 1),
        (GOOD, 0),
    ]


def test_a_directory_stands_for_its_policy(tmp_path, capsys):
    (tmp_path / "policy.yaml").write_text(BAD)
    assert main(["validate", str(tmp_path)]) == 2
    assert f"{tmp_path}/policy.yaml:27:13: error:" in capsys.readouterr().out


def test_standard_input_is_read_once(monkeypatch, capsys):
    stream = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + BAD.encode()))
    monkeypatch.setattr("sys.stdin", stream)
    assert main(["validate", "-", "-", "-o", "github"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error file=<stdin>,line=27,col=13,title=policy-value::")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "requires FILE"),
        (["f", "-o", "xml"], "'xml' is not one of 'table', 'json'"),
        (["f", "--policy", "x"], "--policy has no effect for `desched validate`"),
    ],
)
def test_what_it_does_not_understand_is_refused(capsys, words, said):
    assert main(["validate", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_name_that_is_no_text_is_shown_harmlessly(tmp_path, capsys):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b[2J.yaml")
    Path(path).write_text(BAD)
    for form in ("table", "json", "github"):
        assert main(["validate", path, "-o", form]) == 2
        text = capsys.readouterr().out
        assert text.encode()
        assert all(line.isprintable() for line in text.splitlines())


LINES = st.sampled_from(
    [
        *("cpu: 0.8", "cpu: 85%", "nodeFit: false", "total: 0", "duration: 7d", "- name: x", ""),
        *("\tcpu: 80", "steering: Off", "address: ${PROM}", "pods: 90", "- LoadAware", "---"),
    ]
)
TEXTS = [path.read_text() for path in sorted(POLICIES.glob("*.yaml"))]


@st.composite
def edited(draw):
    """A policy of the repository in which somebody replaced, added or removed lines."""
    lines = draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
        kept = draw(st.integers(0, 2))
        lines[at : at + kept] = [indent + draw(LINES)] if draw(st.booleans()) else []
        lines = lines or [""]
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    if draw(st.booleans()) and "ConfigMap" not in text:
        text = "kind: ConfigMap\ndata:\n  policy.yaml: |\n" + textwrap.indent(text, "    ")
    return text


def service_reading(file):
    """The problems for which the service refuses a file, or else the warnings."""
    try:
        return set(), list(load_policy(file).warnings)
    except ConfigurationError as error:
        return set(str(error).splitlines()), []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(edited())
def test_what_the_service_loads_validates_and_nothing_else_does(tmp_path, capsys, text):
    file = tmp_path / "policy.yaml"
    file.write_text(text, newline="")
    code = main(["validate", str(file), "-o", "json"])
    (row,) = json.loads(capsys.readouterr().out)["files"]
    lines = [
        f"{file}:{each['line']}: {each['key'] + ': ' if each['key'] else ''}{each['message']}"
        for each in row["findings"]
    ]
    refusal, warnings = service_reading(file)
    assert code == (2 if refusal else 0)
    assert refusal <= {*lines}
    assert refusal or warnings == lines
    for finding in row["findings"]:
        assert 1 <= finding["line"] <= max(1, len(text.splitlines()) + 1)
        assert finding["column"] >= 1
