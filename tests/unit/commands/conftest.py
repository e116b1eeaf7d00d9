from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from desched.cli.command import Invocation
from desched.cli.lazy_loading import load_to_run


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[[str], str]:
    """Writes the kubeconfig of a person whose current context leads to this address."""

    def written(url: str) -> str:
        path = tmp_path / "config"
        context = {"cluster": "lab", "user": "admin@lab", "namespace": "elsewhere"}
        document = {
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {"server": url}}],
            "users": [{"name": "admin@lab", "user": {"token": "s3cr3t"}}],
            "contexts": [{"name": "lab", "context": context}],
            "current-context": "lab",
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return written


@pytest.fixture
def run(server, kubeconfig, capsys):
    """Runs a command with its own flags and with texts of settings; what it printed."""

    def printed(name, flags=None, **texts):
        texts["kubeconfig"] = kubeconfig(server.url)
        load_to_run(name).run(Invocation(flags or {}, texts))
        return capsys.readouterr().out

    return printed
