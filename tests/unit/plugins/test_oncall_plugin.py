"""The worked example of docs/plugins/your-own.md, as a package that pip builds and installs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from desched.lab.demo import POLICY_FILE
from desched.lab.scenarios import guarded_scenario
from desched.model.state import State
from desched.plugin_api import Node, Pod, View, Workload
from desched.plugin_api.testing import a_view
from desched.policy_file.loading import read_policy
from desched.snapshot_file.storage import save_snapshot
from desched.snapshot_file.taken import Redaction, take_snapshot
from tests.repository import ROOT
from tests.unit.test_wheel import PIP, run

EXAMPLE = ROOT / "docs" / "examples" / "oncall-plugin"
PAGE = (ROOT / "docs" / "plugins" / "your-own.md").read_text()
POD = "demo/low-priority-workload-1"
"""It moves if no plugin takes part."""
LAB_POLICY = ROOT / "desched" / "lab" / POLICY_FILE
POLICY = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example alone, filled as the page says, but without the network."""
    folder = tmp_path_factory.mktemp("oncall") / "plugins"
    run(
        *(*PIP, "install", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--target", folder, EXAMPLE),
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the policy of the page, and a snapshot of a cluster with pods of a team."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "idle.yaml").write_text(POLICY.replace("[payments]", "[]"))
    world, text = guarded_scenario().world(acting=False), read_policy(LAB_POLICY)
    content = take_snapshot(world, text, State(), "", Redaction(all_labels=True))
    seen = content.snapshot
    pods = tuple(
        msgspec.structs.replace(pod, labels={**pod.labels, "team": "payments"})
        for pod in seen.cluster.pods
    )
    cluster = msgspec.structs.replace(seen.cluster, pods=pods)
    seen = msgspec.structs.replace(seen, cluster=cluster)
    save_snapshot(msgspec.structs.replace(content, snapshot=seen), folder / "now.snapshot")
    return folder


def desched(folder: Path, site: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(path) for path in (ROOT, site) if path]
    return subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},  # noqa: TID251  (a child's)
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def by_policy(name: str, command: str, *arguments: str) -> tuple[str, ...]:
    """A command on the snapshot by a policy."""
    return "-m", "desched", command, *arguments, "--snapshot", "now.snapshot", "--policy", name


def test_the_page_has_the_files_of_the_package() -> None:
    shown = re.findall(r"```(?:toml|python)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    files = {path.name: path.read_text() for path in EXAMPLE.iterdir() if path.is_file()}
    assert dict(shown) == files


@pytest.mark.parametrize("kind", [Node, Pod, View, Workload])
def test_what_the_page_promises_is_there(kind: type) -> None:
    (row,) = re.findall(rf"^\| `{kind.__name__}` \| (.*) \|$", PAGE, re.MULTILINE)
    promised = re.findall(r"`(\w+)(?:\(\w+\))?`", row)
    there = {*dir(kind), *dir(a_view())} if kind is View else set(dir(kind))
    assert len(promised) >= 4
    assert set(promised) <= there


def test_a_plan_has_its_refusal(folder: Path, installed: Path) -> None:
    idle, kept = (
        desched(folder, installed, *by_policy(name, "plan"))
        for name in ("idle.yaml", "policy.yaml")
    )
    assert (idle.returncode, kept.returncode) == (0, 0), kept.stderr
    assert POD in idle.stdout.partition("stay:")[0]
    assert "plugin_rule" not in idle.stdout
    assert "plugin_rule: An out-of-tree plugin that the policy names keeps it" in kept.stdout
    assert "(oncall: team payments is on call)" in kept.stdout


def test_explain_has_its_rule_and_its_words(folder: Path, installed: Path) -> None:
    done = desched(folder, installed, *by_policy("policy.yaml", "explain", "pod", POD))
    assert done.returncode == 0, done.stderr
    assert "oncall: team payments is on call" in " ".join(done.stdout.split())


def test_without_the_package_nothing_is_planned(folder: Path) -> None:
    done = desched(folder, None, *by_policy("policy.yaml", "plan"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no plugin oncall is installed where this runs; installed are: none." in done.stderr


def test_the_version_lists_it(folder: Path, installed: Path) -> None:
    done = desched(folder, installed, "-m", "desched", "version")
    assert done.stdout.splitlines()[1:] == ["plugin oncall of desched-oncall 0.1.0"]


def test_its_own_tests_pass(folder: Path, installed: Path) -> None:
    test = str(EXAMPLE / "test_oncall.py")
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull)
    done = desched(folder, installed, "-m", "pytest", *options, test)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
