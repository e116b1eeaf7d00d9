"""Where the audit trail goes."""

import io
import json

import pytest

from desched.bootstrap.trails import audit_log
from desched.errors import ConfigurationError
from desched.settings import load_settings
from tests.unit.service.example_reports import REPORT


def written(target, stdout=None):
    with audit_log(load_settings({"audit_log": str(target)}), stdout or io.StringIO()) as sinks:
        for sink in sinks:
            sink(REPORT)


def test_a_file_is_appended_to(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(path)
    written(path)

    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == [
        "eviction",
        "eviction",
    ]


def test_a_dash_is_standard_output():
    out = io.StringIO()
    written("-", out)

    assert json.loads(out.getvalue())["event"] == "eviction"
    assert not out.closed


def test_without_a_file_there_is_no_trail():
    with audit_log(load_settings({}), io.StringIO()) as sinks:
        assert sinks == ()


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ConfigurationError, match=r"--audit-log \(DESCHED_AUDIT_LOG\): cannot"):
        written(tmp_path / "nowhere" / "audit.jsonl")
