"""To remove a plugin is to delete its folder and its row."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import desched.plugins
from desched import __version__
from desched.plugins import HOUSE
from desched.policy_keys.section import Section, keys
from tests.repository import ROOT
from tests.stored_snapshots import STORED
from tests.unit.policy_file.published import published
from tests.unit.test_annexes import IMPORT_ALL, run

IN_FOLDERS = [each for each in HOUSE if type(each).__module__.startswith(desched.plugins.__name__)]
PLUGINS = {type(plugin).__module__.split(".")[2]: plugin for plugin in IN_FOLDERS}
SNAPSHOT = STORED / f"desched-{__version__}.snapshot"


def test_each_folder_has_its_row() -> None:
    folders = {
        path.parent.name for path in Path(desched.plugins.__file__).parent.glob("*/plugin.py")
    }
    assert PLUGINS.keys() == folders


@pytest.mark.parametrize("folder", PLUGINS)
def test_without_a_plugin_all_others_and_the_core_work(folder: str, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "desched", tmp_path / "desched", ignore=ignored)
    shutil.rmtree(tmp_path / "desched" / "plugins" / folder)
    rows = tmp_path / "desched" / "plugins" / "__init__.py"
    kept = [
        line
        for line in rows.read_text().splitlines(keepends=True)
        if f"plugins.{folder}." not in line and f"{type(PLUGINS[folder]).__name__}()," not in line
    ]
    rows.write_text("".join(kept))
    imported = run(tmp_path, "-c", IMPORT_ALL)
    assert imported.returncode == 0, imported.stderr
    planned = run(tmp_path, "-m", "desched", "plan", "--snapshot", str(SNAPSHOT), "-o", "json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["plan"]["nodes"]
    examples = _examples(folder)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(published(load_aware=examples)))
    validated = run(tmp_path, "-m", "desched", "validate", str(policy)).stdout
    for key in examples:
        assert f"args.{key}\n    unknown key" in validated
    assert f"{len(examples)} error" in validated
    if config := PLUGINS[folder].in_profiles:
        document = published()
        document["profiles"][0]["pluginConfig"] += [{"name": config.plugin_name()}]
        policy.write_text(json.dumps(document))
        validated = run(tmp_path, "-m", "desched", "validate", str(policy)).stdout
        assert "is no plugin that desched has" in " ".join(validated.split())


def _examples(folder: str) -> dict[str, Any]:
    """The keys that a plugin adds to the arguments of LoadAware, each with its example."""
    fields = keys(PLUGINS[folder].keys or Section).items()
    return {key: example for key, field in fields for example in field.examples or ()}
