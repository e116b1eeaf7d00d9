"""Which account is meant, and what is wrong where there is none."""

import socket
import warnings
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import yaml
from kubernetes.config import incluster_config
from urllib3.exceptions import InsecureRequestWarning

from desched.adapters.kubernetes.client import kubeconfig as kubeconfig_module
from desched.adapters.kubernetes.client.kubeconfig import find_account
from desched.errors import ConfigurationError


def kubeconfig(path: Path, user: dict[str, Any] | None = None, **overrides: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://user:pw@prod.example:6443"}},
            {"name": "d", "cluster": {"server": "https://dev.example:6443"}},
        ],
        "users": [{"name": "u", "user": {"token": "t0ken"} if user is None else user}],
        "contexts": [
            {"name": "prod", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
            {"name": "dev", "context": {"cluster": "d", "user": "u"}},
        ],
        "current-context": "prod",
    }
    path.write_text(yaml.safe_dump(document | overrides))
    return path


@pytest.fixture(autouse=True)
def outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(incluster_config.SERVICE_HOST_ENV_NAME, raising=False)


def test_the_current_context_is_the_default(tmp_path: Path) -> None:
    found = find_account(kubeconfig(tmp_path / "config"), None)

    assert found.target == 'context "prod" (https://prod.example:6443)'
    assert (found.namespace, found.in_cluster) == ("shop", False)
    assert found.user == "u"
    assert found.configuration.api_key == {"BearerToken": "Bearer t0ken"}


def test_a_context_is_found_by_name(tmp_path: Path) -> None:
    found = find_account(kubeconfig(tmp_path / "config"), "dev")

    assert found.target == 'context "dev" (https://dev.example:6443)'
    assert found.namespace == "default"


def test_a_connection_whose_other_end_is_gone_is_noticed_within_half_a_minute(
    tmp_path: Path,
) -> None:
    configuration = find_account(kubeconfig(tmp_path / "config"), None).configuration

    with socket.socket() as found:
        for option in configuration.socket_options or ():
            found.setsockopt(*option)
        idle, interval, probes = (
            found.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle + interval * probes <= 30


def test_the_librarys_own_retries_are_off(tmp_path: Path) -> None:
    configuration = find_account(kubeconfig(tmp_path / "config"), None).configuration

    assert configuration.retries is False
    assert configuration.client_go_retries is False


def test_an_unknown_context_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'no context "prd"; it has "dev", "prod"'):
        find_account(kubeconfig(tmp_path / "config"), "prd")


def test_a_kubeconfig_without_a_current_context_is_an_error(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"current-context": ""}
    path = kubeconfig(tmp_path / "config", **nothing)

    with pytest.raises(ConfigurationError, match=r'choose one with --context: "dev", "prod"'):
        find_account(path, None)


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no kubeconfig at .*nowhere"):
        find_account(tmp_path / "nowhere", None)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "- 1", "\0", "just text"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match="config is not a kubeconfig"):
        find_account(path, None)


def test_the_error_of_an_unreadable_kubeconfig_has_the_cause(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read \\(Is a directory\\)"):
        find_account(tmp_path, None)


def test_a_context_of_a_missing_cluster_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", clusters=[])

    with pytest.raises(ConfigurationError, match=r'context "prod".*cannot be used'):
        find_account(path, None)


def test_an_empty_token_file_is_an_error_not_an_anonymous_login(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("")
    path = kubeconfig(tmp_path / "config", user={"tokenFile": str(token_file)})

    with pytest.raises(ConfigurationError, match=r"token file .*token .* is empty"):
        find_account(path, None)


def test_a_credential_plugin_that_works_gives_the_token(tmp_path: Path) -> None:
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "fresh"}}'
    )
    plugin = {
        "command": "/bin/echo",
        "args": [credential],
        "apiVersion": "client.authentication.k8s.io/v1",
    }
    path = kubeconfig(tmp_path / "config", user={"exec": plugin})

    assert find_account(path, None).configuration.api_key == {"BearerToken": "Bearer fresh"}


def test_the_default_kubeconfig_may_be_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig(tmp_path / "first", contexts=[], users=[])
    second = kubeconfig(tmp_path / "second", clusters=[])
    location = f"{first}:{second}"
    monkeypatch.setattr(kubeconfig_module, "KUBE_CONFIG_DEFAULT_LOCATION", location)

    assert find_account(None, "dev").target == 'context "dev" (https://dev.example:6443)'


@pytest.fixture
def in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", "pod-token"), ("ca.crt", "CA"), ("namespace", "desched\n")):
        (tmp_path / name).write_text(content)
    monkeypatch.setenv(incluster_config.SERVICE_HOST_ENV_NAME, "10.0.0.1")
    monkeypatch.setenv(incluster_config.SERVICE_PORT_ENV_NAME, "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(kubeconfig_module, "_NAMESPACE_FILE", tmp_path / "namespace")


@pytest.mark.usefixtures("in_a_pod")
def test_in_a_pod_its_own_account_is_used() -> None:
    found = find_account(None, None)

    assert found.target == "in-cluster (https://10.0.0.1:443)"
    assert (found.in_cluster, found.namespace) == (True, "desched")
    assert found.configuration.api_key == {"BearerToken": "bearer pod-token"}
    assert found.configuration.retries is False


@pytest.mark.usefixtures("in_a_pod")
def test_a_kubeconfig_that_is_asked_for_wins_over_the_pods_account(tmp_path: Path) -> None:
    assert not find_account(kubeconfig(tmp_path / "config"), None).in_cluster


def test_a_server_that_is_not_verified_is_noted_once(tmp_path: Path) -> None:
    cluster = {"server": "https://unsafe.example", "insecure-skip-tls-verify": True}
    path = kubeconfig(tmp_path / "config", clusters=[{"name": "c", "cluster": cluster}])
    with structlog.testing.capture_logs() as logs:
        find_account(path, None)
        find_account(path, None)
    assert [line["event"] for line in logs] == ["certificate.unverified"]
    assert "https://unsafe.example" in logs[0]["target"]
    with warnings.catch_warnings(record=True) as told:
        warnings.warn("each request", InsecureRequestWarning, stacklevel=1)
    assert told == []
