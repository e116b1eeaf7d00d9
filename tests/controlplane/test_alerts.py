"""The alerts that the documents offer are rules that Prometheus takes."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane.binaries import find_or_build

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.usefixtures("binaries")
def test_prometheus_takes_every_documented_alert(tmp_path: Path) -> None:
    section = OPERATIONS.read_text().partition("Worth an alert")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)` \| (\d+[hm])? ?\|", section, re.MULTILINE)
    table = [
        {"alert": f"Row{number}", "expr": expression.replace("\\|", "|"), "for": lasting or "0s"}
        for number, (expression, lasting) in enumerate(rows)
    ]
    block = re.search(r"^```yaml\n(.+?)^```", section, re.MULTILINE | re.DOTALL)
    assert block
    groups = [{"name": "table", "rules": table}, *yaml.safe_load(block[1])["spec"]["groups"]]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": groups}))
    checked = subprocess.run(
        [find_or_build(["promtool"])["promtool"], "check", "rules", "--lint=all", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(table) > 15
    assert checked.returncode == 0, checked.stdout + checked.stderr
