"""What the chart in deploy/chart/ renders, and the manifests for kustomize that are made from it.

`python -m tests.controlplane.chart_rendering` writes these manifests. It needs Helm, which
`make controlplane-binaries` builds.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from desched.plugins.kinds import PLUGIN_KINDS
from tests.controlplane.binaries import (
    RENDERERS,
    SKIPPED,
    BinariesUnavailableError,
    cache_directory,
    find_or_build,
)
from tests.repository import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
DASHBOARD = CHART / "dashboards" / "desched.json"
NAMESPACE = "desched-system"
"""That of deploy/base."""

Values = Mapping[str, Any]
Object = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""

EVERYTHING: Values = {
    "mode": "evict",
    "flowControl": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
}

MANIFESTS: Mapping[str, tuple[str, Values]] = {
    "base/rbac.yaml": ("planning-rbac.yaml", {}),
    "base/deployment.yaml": ("deployment.yaml", {}),
    "base/disruption-budget.yaml": ("disruption-budget.yaml", {}),
    "base/network-policy.yaml": ("network-policy.yaml", {}),
    "base/service.yaml": ("service.yaml", {}),
    "overlays/evict-without-steering/rbac.yaml": ("evicting-rbac.yaml", EVERYTHING),
    "overlays/evict/rbac.yaml": ("steering-rbac.yaml", EVERYTHING),
    "overlays/evict/admission-policy.yaml": ("admission-policy.yaml", EVERYTHING),
    **{
        f"{rights.name}/{system}.yaml": (
            f"{rights.name}-rbac.yaml",
            {"rights": {rights.key.removeprefix("rights."): {system: True}}},
        )
        for _, _, rights, *_ in PLUGIN_KINDS
        for system in rights.granted
    },
    "volcano-configuration.yaml": (
        "volcano-configuration-rbac.yaml",
        {"rights": {"volcanoConfiguration": "volcano-system/volcano-scheduler-configmap"}},
    ),
    "custom-metrics/rbac.yaml": (
        "custom-metrics-rbac.yaml",
        {"rights": {"customMetrics": True}},
    ),
    "flow-control.yaml": ("flow-control.yaml", EVERYTHING),
    "alerts.yaml": ("prometheus-rule.yaml", EVERYTHING),
}
"""Each file under deploy/ with its template and the values for it."""
POLICY = "base/policy.yaml"
"""The policy of the chart, for the generator of the ConfigMap in deploy/base."""

HEADER = "# Rendered from deploy/chart/templates/{} by `make generated`.\n"
_SOURCE = "# Source: desched/templates/"


def renderer(name: str) -> Path:
    """The binary of Helm or kustomize; without it, the test skips, and in CI it fails."""
    binary = cache_directory(RENDERERS) / name
    if binary.exists():
        return binary
    reason = f"{name} is not built; run `make controlplane-binaries`."
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(f"{SKIPPED}: {reason}")


def run(*command: str | Path, values: Values | None = None) -> str:
    """What Helm or kustomize writes; the values go to standard input.

    Raises:
        subprocess.CalledProcessError: it fails; a note has why.
    """
    text = None if values is None else json.dumps(values)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    try:
        done.check_returncode()
    except subprocess.CalledProcessError as error:
        error.add_note(done.stdout + done.stderr)
        raise
    return done.stdout


def template(helm: Path, values: Values, *flags: str, namespace: str = NAMESPACE) -> str:
    """What Helm renders for these values."""
    command = (helm, "template", "desched", CHART, "--namespace", namespace, "--values", "-")
    return run(*command, *flags, values=values)


def objects(text: str) -> dict[Key, Object]:
    """The objects in YAML documents."""
    documents = [each for each in yaml.safe_load_all(text) if each]
    found = {_key(each): each for each in documents}
    assert len(found) == len(documents)
    return found


def _key(manifest: Object) -> Key:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def manifests(helm: Path) -> dict[str, str]:
    """The text of each file under deploy/ that is made from the chart."""
    texts = {}
    for file, (name, values) in MANIFESTS.items():
        rendered = template(helm, values, "--show-only", f"templates/{name}")
        texts[file] = HEADER.format(name) + _in_order(rendered, (CHART / "templates" / name))
    (config_map,) = objects(template(helm, {}, "--show-only", "templates/policy.yaml")).values()
    return {**texts, POLICY: config_map["data"]["policy.yaml"]}


def _in_order(rendered: str, source: Path) -> str:
    """The documents in the order of the template; Helm sorts them by kind."""
    text = source.read_text()

    def place(document: str) -> int:
        (manifest,) = objects(document).values()
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        # A name with a value in it is not in the template; such objects keep Helm's order.
        return text.find(f"kind: {kind}\nmetadata:\n  name: {name}\n")

    _, *documents = rendered.split(f"---\n{_SOURCE}{source.name}\n")
    return "---\n".join(f"{each.rstrip()}\n" for each in sorted(documents, key=place))


def main() -> None:
    """Write the files."""
    try:
        helm = find_or_build(["helm"], lambda line: print(line, file=sys.stderr), RENDERERS)
    except BinariesUnavailableError as unavailable:
        sys.exit(str(unavailable))
    for file, text in manifests(helm["helm"]).items():
        (DEPLOY / file).write_text(text)


if __name__ == "__main__":
    main()
