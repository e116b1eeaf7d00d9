"""Each row of the pages for those who come from another descheduler is true of the code."""

import re
from copy import deepcopy
from typing import Any, NamedTuple

import pytest
import yaml

from desched.bootstrap.runs import Ending
from desched.cli import main
from desched.cli.other_deschedulers import SUBSTITUTES
from desched.cli.setting_flags import SETTING_FLAGS, SETTING_OF_FLAG
from desched.convert.conversion import Dialect, convert_policy
from desched.convert.notes import Effect
from desched.policy_file.loading import validate_policy
from desched.policy_keys.findings import InvalidPolicy
from tests.repository import ROOT

Path = tuple[str | int, ...]

TARGETS: dict[str, Any] = {"cpu": 80, "memory": 85}
LOWER: dict[str, Any] = {"cpu": 30, "memory": 30}


def policy_of(plugin: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A policy with one profile, which enables this plugin of balance."""
    evictor = more.pop("evictor", {"name": "DefaultEvictor", "args": {}})
    profile = {
        "name": "default",
        "pluginConfig": [evictor, {"name": plugin, "args": args}],
        "plugins": {"balance": {"enabled": more.pop("enabled", [plugin])}},
    }
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    return {**head, **more, "profiles": [profile]}


VOLCANO = policy_of(
    "LoadAware",
    {
        "metrics": {"type": "prometheus", "address": "http://p:9090"},
        "targetThresholds": TARGETS,
        "thresholds": LOWER,
    },
)
SIGS = policy_of(
    "LowNodeUtilization",
    {
        "metricsUtilization": {"source": "KubernetesMetrics"},
        "targetThresholds": TARGETS,
        "thresholds": LOWER,
    },
    metricsProviders=[{"source": "KubernetesMetrics"}],
)
KOORDINATOR = policy_of(
    "LowNodeLoad",
    {"highThresholds": TARGETS, "lowThresholds": LOWER},
    kind="DeschedulerConfiguration",
    evictor={"name": "MigrationController", "args": {"defaultJobMode": "EvictDirectly"}},
    enabled=[{"name": "LowNodeLoad"}],
)
PAGES = {
    "from-volcano.md": (Dialect.VOLCANO, VOLCANO),
    "from-kubernetes-sigs.md": (Dialect.KUBERNETES_SIGS, SIGS),
    "from-koordinator.md": (Dialect.KOORDINATOR, KOORDINATOR),
}
OUTCOMES = {
    Effect.CHANGED: "changed",
    Effect.DROPPED: "left out",
    Effect.HELD: "held",
}


class Row(NamedTuple):
    """A row of a table below a heading, with its cells but the last."""

    page: str
    heading: str
    cells: tuple[str, ...]


def rows(page: str) -> list[Row]:
    found, heading = [], ""
    for line in (ROOT / "docs" / page).read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| `"):
            cells = tuple(cell.strip() for cell in line.strip("|").split(" | ")[:-1])
            found.append(Row(page, heading, cells))
    return found


FLAGS = rows("replaced-flags.md")
KEYS = [
    row._replace(cells=(key, *row.cells[1:]))
    for page in PAGES
    for row in rows(page)
    for key in re.findall(r"`[^`]+`", row.cells[0])
]


def flags(cell: str) -> list[str]:
    return re.findall(r"`(--?[\w-]+)`", cell)


@pytest.mark.parametrize(
    ("there", "here"),
    dict.fromkeys((flag, row.cells[1]) for row in FLAGS for flag in flags(row.cells[0])),
)
def test_each_flag_is_accepted_or_refused_as_the_page_says(there, here, capsys, mocker):
    run = mocker.patch("desched.bootstrap.runs.run", autospec=True, return_value=Ending())
    if "refused" not in here:
        assert SETTING_FLAGS[SETTING_OF_FLAG[there]].flag == here.strip("`")
        return
    assert main([f"{there}=3"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"desched: {there}: ") or "takes its place" in error
    assert all(flag in error for flag in flags(here))
    run.assert_not_called()


def test_every_flag_with_an_answer_is_on_the_page() -> None:
    on_the_page = {flag for row in FLAGS for flag in flags(row.cells[0])}
    accepted = {alias for row in SETTING_FLAGS.values() for alias in row.aliases if "--" in alias}

    assert on_the_page >= SUBSTITUTES.keys() | accepted


def split(cell: str) -> tuple[tuple[str, ...], Any]:
    """The keys and the value of a cell such as `metrics.type: null`."""
    key, _, value = cell.strip("`").partition(": ")
    return tuple(key.split(".")), yaml.safe_load(value)


def place(row: Row, document: dict[str, Any]) -> Path:
    keys, _ = split(row.cells[0])
    plugin = row.heading.rpartition(" ")[2] if row.heading.startswith("The args of ") else None
    if plugin is None:
        assert row.heading == "Top-level keys"
        return keys
    configs = document["profiles"][0]["pluginConfig"]
    if plugin not in [config["name"] for config in configs]:
        configs.append({"name": plugin, "args": {}})
    number = next(n for n, config in enumerate(configs) if config["name"] == plugin)
    return ("profiles", 0, "pluginConfig", number, "args", *keys)


def inside(document: Any, path: Path) -> Any:
    for part in path[:-1]:
        document = document.setdefault(part, {}) if isinstance(part, str) else document[part]
    return document


def with_and_without(row: Row) -> tuple[Dialect, Path, str, str]:
    """Two policies, of which the second lacks the key of the row."""
    dialect, original = PAGES[row.page]
    with_key, without = deepcopy(original), deepcopy(original)
    path = place(row, with_key)
    place(row, without)
    inside(with_key, path)[path[-1]] = split(row.cells[0])[1]
    inside(without, path).pop(path[-1], None)
    return dialect, path, yaml.safe_dump(with_key), yaml.safe_dump(without)


def name(row: Row) -> str:
    return f"{row.page}-{row.heading}-{row.cells[0]}"


@pytest.mark.parametrize("row", KEYS, ids=name)
def test_each_key_is_converted_as_the_page_says(row: Row) -> None:
    dialect, path, with_key, without = with_and_without(row)
    try:
        found = convert_policy(with_key, "policy.yaml", dialect)
    except InvalidPolicy:
        assert row.cells[-1] == "refused"
        return
    effects = [
        OUTCOMES[note.effect]
        for note in found.notes
        if note.effect in OUTCOMES and note.path[: len(path)] == path
    ]
    if effects:
        assert row.cells[-1] in effects
        return
    try:
        counts = convert_policy(without, "policy.yaml", dialect).document != found.document
    except InvalidPolicy:  # it is required
        counts = True
    assert row.cells[-1] == ("kept" if counts else "no effect")


READ = [row for row in KEYS if row.page == "from-volcano.md"]


@pytest.mark.parametrize("row", READ, ids=name)
def test_each_key_of_volcano_is_read_as_the_page_says(row: Row) -> None:
    _, path, with_key, _ = with_and_without(row)
    found = validate_policy(with_key, "policy.yaml")
    own = [finding for finding in found.findings if finding.path[: len(path)] == path]

    assert row.cells[1] == ("refused" if found.policy is None else "warned" if own else "read")


def test_the_pages_have_rows_about_all_that_is_converted() -> None:
    for page in PAGES:
        assert len([row for row in KEYS if row.page == page]) > 20


def test_the_variables_that_take_the_place_of_flags_are_documented() -> None:
    reference = (ROOT / "docs" / "operations-reference.md").read_text()
    (named,) = {*re.findall(r"OTEL_\w+", "".join(SUBSTITUTES.values()))}
    assert f"`{named}`" in reference
