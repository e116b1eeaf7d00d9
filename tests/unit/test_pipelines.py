"""The pipelines: what their steps are, and their scripts with stand-ins for the tools."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from desched import __version__
from tests.controlplane.chart_rendering import renderer
from tests.repository import ROOT

SCRIPTS = ROOT / ".github" / "scripts"
PIPELINES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOME = "https://forge.example/team/desched"
IMAGE = "registry.example/team/desched"
DIGEST = f"sha256:{'a' * 64}"
CHART_DIGEST = f"sha256:{'b' * 64}"

STAND_IN = """\
#!/bin/bash
echo "${0##*/} $*" >> "$CALLS"
case "${0##*/} $1" in
  "helm package") exec "$HELM" "$@" ;;
  "helm push") echo "Digest: $CHART_DIGEST" >&2 ;;
  "cosign sign-blob") touch "$4" ;;
  "docker buildx") echo '{"SPDX": {}}' ;;
esac
"""


def steps() -> list[dict[str, Any]]:
    jobs = [job for each in PIPELINES for job in yaml.safe_load(each.read_text())["jobs"].values()]
    return [step for job in jobs for step in job.get("steps", ())]


def test_each_step_is_an_action_by_commit_or_a_target_or_a_script() -> None:
    targets = {*(ROOT / "Makefile").read_text().partition(".PHONY:")[2].split(), ".venv/.runtime"}
    used = set()
    for step in steps():
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step
            continue
        command, *words = shlex.split(step["run"])
        assert "\n" not in step["run"].strip()
        if command == "make":
            assert {word for word in words if "=" not in word} <= targets
        else:
            used.add(ROOT / command)
    assert used == set(SCRIPTS.iterdir())
    assert all(os.access(script, os.X_OK) for script in used)


def test_each_pinned_action_has_its_version_beside_it() -> None:
    """Dependabot renews both; people read the version."""
    for pipeline in PIPELINES:
        lines = [
            line for line in pipeline.read_text().splitlines() if "@" in line and "uses:" in line
        ]
        assert all(re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line) for line in lines)


class Runner:
    """A folder like that of a job, where each tool only notes how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._notes = folder / "calls"
        tools = folder / "tools"
        tools.mkdir()
        for name in ("cosign", "docker", "gh", "helm", "kind", "kubectl", "oras"):
            self.stand_in(tools / name)
        for name in ("tests", "desched", "deploy", ".github"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("controlplane")
            )
        (folder / "CHANGELOG.md").write_text(f"## {__version__}\n\n### Added\n\n* All.\n")
        (folder / ".venv").symlink_to(sys.prefix)
        self.environment = {
            "PATH": f"{tools}:/usr/bin:/bin",
            "CALLS": str(self._notes),
            "CHART_DIGEST": CHART_DIGEST,
            "GITHUB_OUTPUT": str(folder / "output"),
        }

    def stand_in(self, path: Path) -> None:
        path.write_text(STAND_IN)
        path.chmod(0o755)

    def run(self, script: str, *arguments: str, **variables: str) -> list[str]:
        """How the tools were called."""
        done = subprocess.run(  # noqa: S603  (a script of ours)
            [SCRIPTS / script, *arguments],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return self._notes.read_text().splitlines() if self._notes.exists() else []


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_only_the_tag_of_the_version_is_released(runner: Runner) -> None:
    runner.run("version-of-tag", f"v{__version__}")
    assert (runner.folder / "output").read_text() == f"version={__version__}\n"
    with pytest.raises(AssertionError, match=r"not that of version"):
        runner.run("version-of-tag", "v99.0.0")


def test_the_image_runs_without_rights_and_is_signed_by_digest(runner: Runner) -> None:
    calls = runner.run("run-image", "desched:ci")
    assert calls
    assert all("--read-only --cap-drop ALL desched:ci" in call for call in calls)

    calls = runner.run("sign-image", f"{IMAGE}@{DIGEST}")
    assert f"cosign sign --yes {IMAGE}@{DIGEST}" in calls
    assert "SPDX" in (runner.folder / "desched-image.sbom.json").read_text()


def test_the_chart_is_pushed_and_signed_by_the_digest_that_the_registry_gave(
    runner: Runner,
) -> None:
    helm = str(renderer("helm"))
    calls = runner.run("publish-chart", HOME, IMAGE, DIGEST, HELM=helm, ARTIFACT_HUB_ID="4-2")

    charts = "registry.example/team/charts"
    assert f"helm push build/chart/desched-{__version__}.tgz oci://{charts}" in calls
    assert f"cosign sign --yes {charts}/desched@{CHART_DIGEST}" in calls
    assert [call for call in calls if call.startswith(f"oras push {charts}/desched:artifacthub.io")]
    metadata = yaml.safe_load((runner.folder / "build/chart/artifacthub-repo.yml").read_text())
    assert metadata == {"repositoryID": "4-2"}


def test_all_files_are_in_the_sums_that_are_signed_and_published(runner: Runner) -> None:
    dist = runner.folder / "dist"
    dist.mkdir()
    plugin = f"kubectl-desched_{__version__}_linux_amd64.tar.gz"
    for name in (plugin, f"desched-{__version__}-py3-none-any.whl"):
        (dist / name).write_text(name)

    runner.run("sign-files", HOME)
    calls = runner.run("publish-release", f"v{__version__}", f"{IMAGE}@{DIGEST}")

    sums = (runner.folder / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in sums} == {each.name for each in dist.iterdir()}
    (published,) = (call for call in calls if call.startswith("gh release create"))
    assert f"dist/{plugin}" in published
    assert "SHA256SUMS.sigstore.json" in published
    assert [each.suffix for each in (runner.folder / "wheels").iterdir()] == [".whl"]


def test_the_cluster_of_kind_gets_the_image_and_is_deleted(runner: Runner) -> None:
    venv = runner.folder / ".venv"
    venv.unlink()
    (venv / "bin").mkdir(parents=True)
    runner.stand_in(venv / "bin" / "python")
    calls = runner.run("end-to-end", "kindest/node:v1", "example/desched:ci")

    assert [call.partition(" --")[0] for call in calls] == [
        "kind create cluster",
        "kind load docker-image example/desched:ci",
        "kubectl apply",
        "python -m tests.controlplane.relief",
        "kind delete cluster",
    ]
    assert calls[3].endswith("--image example/desched:ci")
