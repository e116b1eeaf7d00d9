import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.bootstrap.policy_source import config_map_of, named_policy
from desched.bootstrap.runs import Ending, run
from desched.errors import ConfigurationError, ObservationError
from desched.policy_file.loading import PolicyText, load_policy
from desched.settings import load_settings
from tests.repository import ROOT
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)

PUBLISHED = ROOT / "policies" / "volcano-published.yaml"
CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}}
DEPLOYED = Reply(body={**CONFIG_MAP, "data": {"policy.yaml": "kind: X\n"}})


@pytest.fixture
def server(mocker) -> Iterator[FakeApiServer]:
    """A cluster that every connection reaches."""
    with FakeApiServer() as fake:
        kubernetes: KubernetesConnection = connection_to(fake)
        mocker.patch("desched.bootstrap.policy_source.connect", return_value=kubernetes)
        fake.answer = lambda _: DEPLOYED
        yield fake


def text_of(name: str, **flags: str) -> PolicyText:
    return named_policy(load_settings({"policy": name, **flags}), lambda _: False)


@pytest.mark.parametrize(
    ("name", "flags", "namespace", "config_map"),
    [
        ("configmap/desched-policy", {}, "desched-system", "desched-policy"),
        ("configmap/desched-policy", {"state_namespace": "ops"}, "ops", "desched-policy"),
        ("ops/configmap/my.policy", {"state_namespace": "x"}, "ops", "my.policy"),
    ],
)
def test_the_deployed_policy_is_read_from_the_cluster(server, name, flags, namespace, config_map):
    assert text_of(name, **flags) == ("kind: X\n", f"{namespace}/configmap/{config_map}")
    (request,) = server.requests
    path = f"/api/v1/namespaces/{namespace}/configmaps/{config_map}"
    assert (request.method, request.path) == ("GET", path)


@pytest.mark.usefixtures("server")
def test_without_a_name_it_is_the_policy_of_the_installation_which_is_said(capsys):
    found = named_policy(load_settings({"state_namespace": "ops"}), lambda _: False)

    assert found == ("kind: X\n", "ops/configmap/desched-policy")
    assert capsys.readouterr().err == "desched: By the policy of ConfigMap ops/desched-policy.\n"


def test_without_a_name_and_an_installation_there_is_no_policy(server):
    server.answer = lambda _: status(404, "no")
    with pytest.raises(ConfigurationError, match=r"No policy is given.* ConfigMap desched-policy"):
        named_policy(load_settings({}), lambda _: False)


def test_without_a_name_and_a_cluster_both_are_said(mocker):
    mocker.patch(
        "desched.bootstrap.policy_source.connect", side_effect=ConfigurationError("No kubeconfig.")
    )
    with pytest.raises(ConfigurationError, match=r"No policy is given.*\n.*No kubeconfig"):
        named_policy(load_settings({}), lambda _: False)


@pytest.mark.parametrize(
    "flags",
    [{"evict": "true", "once": "true"}, {"dry_run": "true", "interval": "5m"}],
)
def test_what_may_evict_or_repeats_has_a_policy_of_its_own(server, flags):
    with pytest.raises(ConfigurationError, match="No policy is given"):
        run(load_settings(flags), io.StringIO(), io.StringIO())
    assert not server.requests


def test_a_file_of_that_name_comes_first(server, tmp_path: Path, monkeypatch):
    (tmp_path / "configmap").mkdir()
    (tmp_path / "configmap" / "desched-policy").write_text("kind: File\n")
    monkeypatch.chdir(tmp_path)

    assert text_of("configmap/desched-policy").text == "kind: File\n"
    assert not server.requests


@pytest.mark.parametrize(
    "name", ["policy.yaml", "configmap", "configmap/", "/configmap/a", "a/b/configmap/c", "A/b"]
)
def test_other_names_are_files(name):
    assert config_map_of(load_settings({"policy": name})) is None


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (status(404, "no"), ConfigurationError, "There is no ConfigMap desched-system/desched-"),
        (status(403, "no"), ObservationError, "may not get configmaps in namespace desched-system"),
        (Reply(body={"kind": "Pod"}), ObservationError, "the answer is no ConfigMap"),
        (Reply(body=CONFIG_MAP), ConfigurationError, 'under the key "policy.yaml"'),
    ],
)
def test_a_policy_that_is_not_there_is_an_error(server, reply, error, text):
    server.answer = lambda _: reply
    with pytest.raises(error, match=text):
        text_of("configmap/desched-policy")


def test_a_service_does_not_read_it(server):
    settings = load_settings({"policy": "configmap/desched-policy"})
    with pytest.raises(ConfigurationError, match="mount the ConfigMap"):
        run(settings, io.StringIO(), io.StringIO())
    assert not server.requests


def test_a_single_run_reads_it_once_and_uses_it(server, mocker):
    served = PUBLISHED.read_text()
    server.answer = lambda _: Reply(body={**CONFIG_MAP, "data": {"policy.yaml": served}})
    start = mocker.patch("desched.bootstrap.runs._run", autospec=True, return_value=Ending())
    settings = load_settings({"policy": "configmap/desched-policy", "dry_run": "true"})

    assert run(settings, io.StringIO(), io.StringIO()) == Ending()
    policy_file = start.call_args.args[1]
    digests = {policy_file.read().policy.digest for _ in range(2)}
    assert digests == {load_policy(PUBLISHED).policy.digest}
    assert len(server.requests) == 1
