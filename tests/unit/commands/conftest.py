from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from desched import observation
from desched.cli import main
from desched.cli.command import Invocation
from desched.cli.lazy_loading import load_to_run
from desched.doctor import questions
from desched.service.process.clock import SystemClock
from tests.unit.commands.sampled_cluster import SampledCluster


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


@pytest.fixture
def sampled(server, mocker) -> SampledCluster:
    """The cluster of `server` with metrics-server; its clock moves while desched waits."""
    built = SampledCluster(server)

    def wait(_clock, seconds):
        built.move(seconds)
        return False

    mocker.patch.object(SystemClock, "wait", autospec=True, side_effect=wait)
    # How long the test itself takes is no difference of clocks.
    for module in (observation, questions):
        mocker.patch.object(module, "lead_seconds", autospec=True, return_value=0.0)
    return built


@pytest.fixture
def command_line(server, kubeconfig, monkeypatch, capsys):
    """Runs a command line from a laptop; its exit code, and what it printed."""
    for variable in ("DESCHED_PROMETHEUS_URL", "DESCHED_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DESCHED_KUBECONFIG", kubeconfig(server.url))

    def run(*words):
        code = main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run
