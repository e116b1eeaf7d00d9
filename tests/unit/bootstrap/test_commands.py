"""The commands for people, to the last request."""

import io
import json

import pytest
import yaml

from desched.bootstrap import commands
from desched.bootstrap.commands import run_command
from desched.errors import ConfigurationError, ObservationError
from desched.settings import load_settings
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, Reply, status


@pytest.fixture
def server():
    with FakeApiServer() as fake:
        yield fake


@pytest.fixture
def settings(server, tmp_path):
    """Of a person whose kubeconfig leads to the fake."""
    kubeconfig = tmp_path / "config"
    context = {"cluster": "lab", "user": "admin@lab", "namespace": "elsewhere"}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "kind": "Config",
                "clusters": [{"name": "lab", "cluster": {"server": server.url}}],
                "users": [{"name": "admin@lab", "user": {"token": "s3cr3t"}}],
                "contexts": [{"name": "lab", "context": context}],
                "current-context": "lab",
            }
        )
    )
    return load_settings({"kubeconfig": str(kubeconfig)})


def run(name, settings, flags=None):
    stdout, stderr = io.StringIO(), io.StringIO()
    run_command(name, settings, flags or {}, stdout, stderr)
    return stdout.getvalue()


def answering(**replies: Reply):
    return lambda request: replies[request.method]


STORED = Reply(201, {"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}})


def test_a_pause_from_a_laptop_is_written_where_the_service_looks_and_signed(
    server, settings, mocker
):
    mocker.patch.object(commands, "getuser", autospec=True, return_value="alice")
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    assert run("pause", settings).startswith("Paused everything")
    written = server.requests[-1]
    assert written.path == "/api/v1/namespaces/desched-system/configmaps"
    stored = json.loads(written.body["data"]["state.json"])
    (paused,) = stored["state"]["pauses"]
    assert paused["by"] == "alice as admin@lab"
    assert "s3cr3t" not in json.dumps(written.body)


def test_where_nobody_has_a_name_a_pause_is_still_a_persons(server, settings, mocker):
    mocker.patch.object(commands, "getuser", autospec=True, side_effect=KeyError("uid 65532"))
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    run("pause", settings)
    stored = json.loads(server.requests[-1].body["data"]["state.json"])
    assert stored["state"]["pauses"][0]["by"] == "somebody as admin@lab"


def test_the_namespace_of_the_state_may_be_named(server, settings):
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    run("pause", settings.model_copy(update={"state_namespace": "ops"}))
    assert {"/namespaces/ops/" in path for path in server.paths()} == {True}


def test_a_pause_ends_by_the_clock_of_the_api_server(server, settings):
    server.date = "Fri, 01 May 2026 12:00:00 GMT"  # long before this machine's time
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    assert "until 14:00 UTC (2 h)" in run("pause", settings, {"for": "2h"})
    stored = json.loads(server.requests[-1].body["data"]["state.json"])
    (paused,) = stored["state"]["pauses"]
    assert (paused["since"], paused["until"]) == ("2026-05-01T12:00:00Z", "2026-05-01T14:00:00Z")


def test_without_a_date_from_the_api_server_a_pause_ends_by_this_machines_clock(server, settings):
    server.date = "not a date"
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    assert "(2 h)" in run("pause", settings, {"for": "2h"})


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (status(404, 'namespaces "desched-system" not found'), "kubectl create namespace"),
        (status(403, "no"), "may not create configmaps.*grant it"),
    ],
)
def test_a_pause_that_must_not_be_written_is_an_error_with_the_remedy(
    server, settings, reply, said
):
    server.answer = answering(GET=status(404, "none"), POST=reply)
    with pytest.raises(ConfigurationError, match=said):
        run("pause", settings)


def test_a_pause_that_may_not_have_been_written_is_an_error_with_the_way_to_find_out(
    server, settings
):
    server.answer = answering(GET=status(404, "none"), POST=Reply(201, {}, cut_off=True))
    with pytest.raises(ObservationError, match=r"not known.*`desched status`"):
        run("pause", settings)


def test_the_status_reads_the_state_and_the_lease_and_writes_nothing(server, settings):
    state = '{"version":1,"state":{"pauses":[{"scope":"pool","since":"2026-05-01T12:00:00Z",'
    state += '"until":null,"subject":"gpu","by":"alice"}]}}'
    lease = {
        "kind": "Lease",
        "metadata": {"resourceVersion": "1"},
        "spec": {"holderIdentity": "desched-1", "leaseDurationSeconds": 15},
    }
    found = Reply(
        body={
            "kind": "ConfigMap",
            "metadata": {"resourceVersion": "1"},
            "data": {"state.json": state},
        }
    )
    server.answer = lambda r: Reply(body=lease) if "leases" in r.path else found
    text = run("status", settings)
    assert "pool gpu until it is resumed (started by alice" in text
    assert "desched-1" in text
    assert 'context "lab"' in text
    assert {request.method for request in server.requests} == {"GET"}
    document = json.loads(run("status", settings.model_copy(update={"output": "json"})))
    assert document["state"]["pauses"][0]["subject"] == "gpu"
    assert document["lease"]["holder"] == "desched-1"


def test_without_a_lease_and_a_state_the_status_reports_neither(server, settings):
    server.answer = lambda _: status(404, "none")
    text = run("status", settings)
    assert "no leader election" in text
    assert "There is none yet in ConfigMap desched-system/desched-state." in text


def test_a_lease_that_may_not_be_read_does_not_hide_the_rest(server, settings):
    server.answer = lambda r: status(403 if "leases" in r.path else 404, "no")
    text = run("status", settings)
    assert "not known: " in text
    assert "There is none yet" in text


def test_a_state_that_must_not_be_read_is_an_error(server, settings):
    server.answer = lambda _: status(403, "no")
    with pytest.raises(ObservationError, match="may not get configmaps"):
        run("status", settings)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"workload": "default/nosuch"}, "There is no Deployment, StatefulSet, ReplicaSet or Job"),
        ({"workload": "Deployment default/nosuch"}, "or Job default/nosuch now; check the name"),
        ({"namespace": "nosuch"}, "There is no namespace nosuch now; check the name"),
        ({"pool": "gpu"}, "check that its nodePools name gpu"),
    ],
)
def test_a_pause_of_what_is_not_there_is_made_and_noted(server, settings, flags, said):
    def answer(request):
        if request.method == "POST":
            return STORED
        namespaces = request.path == "/api/v1/namespaces"
        return Reply(200, {"items": []}) if namespaces else status(404, "none")

    server.answer = answer
    stdout, stderr = io.StringIO(), io.StringIO()
    run_command("pause", settings, flags, stdout, stderr)
    assert stdout.getvalue().startswith("Paused")
    assert said in stderr.getvalue()


@pytest.mark.parametrize("flags", [{}, {"workload": "shop/web"}, {"namespace": "shop"}])
def test_a_pause_of_what_may_be_there_is_not_noted(server, settings, flags):
    def answer(request):
        if request.method == "POST":
            return STORED
        return status(404 if "configmaps" in request.path else 403, "none")

    server.answer = answer
    stdout, stderr = io.StringIO(), io.StringIO()
    run_command("pause", settings, flags, stdout, stderr)
    assert stderr.getvalue() == ""
