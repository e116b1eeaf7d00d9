"""Credential plugins of kubeconfigs: what they are told, what they return, and that they end."""

import sys
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from desched.adapters.kubernetes.client import exec_plugin
from desched.adapters.kubernetes.client.kubeconfig import find_account
from desched.errors import ConfigurationError
from tests.unit.adapters.kubernetes.client.test_kubeconfig import kubeconfig

VERSION = "client.authentication.k8s.io/v1"


def plugin(code: str, **more: Any) -> dict[str, Any]:
    """A plugin that runs this code."""
    found = {"command": sys.executable, "args": ["-c", code], "apiVersion": VERSION}
    return {"exec": found | more}


def returning(status: str) -> str:
    return f"import json, os; print(json.dumps({{'status': {status}}}))"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)


def test_it_runs_beside_its_kubeconfig_with_its_variables_and_what_it_is_for(
    tmp_path: Path,
) -> None:
    told = "'|'.join([os.getcwd(), os.environ['STAGE'], os.environ['KUBERNETES_EXEC_INFO']])"
    code = returning(f"{{'token': {told}}}")
    user = plugin(code, env=[{"name": "STAGE", "value": "prod"}], provideClusterInfo=True)

    found = find_account(kubeconfig(tmp_path / "config", user=user), None)

    directory, stage, info = found.configuration.api_key["BearerToken"].split("|")
    assert (directory, stage) == (f"Bearer {tmp_path}", "prod")
    assert '"kind":"ExecCredential","spec":{"interactive":false,"cluster":{"server"' in info


def test_it_may_return_a_certificate_in_place_of_a_token(tmp_path: Path) -> None:
    code = returning("{'clientCertificateData': 'CERT', 'clientKeyData': 'KEY'}")

    found = find_account(kubeconfig(tmp_path / "config", user=plugin(code)), None).configuration

    files = (found.cert_file, found.key_file)
    assert [Path(str(file)).read_text() for file in files] == ["CERT", "KEY"]


def test_another_credential_of_the_user_goes_first(tmp_path: Path) -> None:
    user = {"token": "t0ken", **plugin("raise SystemExit(1)")}

    found = find_account(kubeconfig(tmp_path / "config", user=user), None)

    assert found.configuration.api_key == {"BearerToken": "Bearer t0ken"}


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(3)",
        "print('no JSON')",
        "print('[]')",
        "print('{}')",
        returning("{}"),
        returning("{'token': ''}"),
        returning("{'clientCertificateData': 5}"),
    ],
)
def test_without_credentials_there_is_no_anonymous_login(tmp_path: Path, code: str) -> None:
    path = kubeconfig(tmp_path / "config", user=plugin(code))

    with pytest.raises(ConfigurationError, match="returned no credentials; run `kubectl version`"):
        find_account(path, None)


def test_one_without_a_command_returns_no_credentials(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", user={"exec": {"apiVersion": VERSION}})

    with pytest.raises(ConfigurationError, match="returned no credentials"):
        find_account(path, None)


def test_one_that_is_not_installed_has_its_hint(tmp_path: Path) -> None:
    user = {"exec": {"command": "/nowhere/plugin", "apiVersion": VERSION, "installHint": "Get it."}}

    with pytest.raises(ConfigurationError, match=r"/nowhere/plugin.*not installed here.* Get it\."):
        find_account(kubeconfig(tmp_path / "config", user=user), None)


def test_one_that_hangs_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "PLUGIN_SECONDS", 2.0)
    pids = tmp_path / "pids"
    code = (
        "import os, time; child = os.fork(); "  # the child holds the output open
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(1000)"
    )
    path = kubeconfig(tmp_path / "config", user=plugin(code))

    began = monotonic()
    with pytest.raises(ConfigurationError, match=r'plugin ".*" that .*did not answer within 2 s'):
        find_account(path, None)

    assert monotonic() - began < 60
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    while any(map(is_alive, started)):
        assert not Event().wait(0.02)
        assert monotonic() - began < 60


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended may wait for somebody to ask for its result."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
