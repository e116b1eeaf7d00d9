"""Pause and status, to the last request."""

import json

import pytest

from desched.bootstrap import interventions
from desched.cli.command import Invocation
from desched.cli.lazy_loading import load_to_run
from desched.errors import ConfigurationError, ObservationError
from tests.unit.adapters.kubernetes.fake_api_server import Reply, status


def answering(**replies: Reply):
    return lambda request: replies[request.method]


STORED = Reply(201, {"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}})


def test_a_pause_from_a_laptop_is_written_where_the_service_looks_and_signed(server, run, mocker):
    mocker.patch.object(interventions, "getuser", autospec=True, return_value="alice")
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    assert run("pause").startswith("Paused everything")
    written = server.requests[-1]
    assert written.path == "/api/v1/namespaces/desched-system/configmaps"
    stored = json.loads(written.body["data"]["state.json"])
    (paused,) = stored["state"]["pauses"]
    assert paused["by"] == "alice as admin@lab"
    assert "s3cr3t" not in json.dumps(written.body)


def test_where_nobody_has_a_name_a_pause_is_still_a_persons(server, run, mocker):
    mocker.patch.object(interventions, "getuser", autospec=True, side_effect=KeyError("uid 65532"))
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    run("pause")
    stored = json.loads(server.requests[-1].body["data"]["state.json"])
    assert stored["state"]["pauses"][0]["by"] == "somebody as admin@lab"


def test_the_namespace_of_the_state_may_be_named(server, run):
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    run("pause", state_namespace="ops")
    assert {"/namespaces/ops/" in path for path in server.paths()} == {True}


def test_a_pause_ends_by_the_clock_of_the_api_server(server, run):
    server.date = "Fri, 01 May 2026 12:00:00 GMT"  # long before this machine's time
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    assert "until 14:00 UTC (2 h)" in run("pause", {"for": "2h"})
    stored = json.loads(server.requests[-1].body["data"]["state.json"])
    (paused,) = stored["state"]["pauses"]
    assert (paused["since"], paused["until"]) == ("2026-05-01T12:00:00Z", "2026-05-01T14:00:00Z")


def test_without_a_date_from_the_api_server_a_pause_ends_by_this_machines_clock(server, run):
    server.date = "not a date"
    server.answer = answering(GET=status(404, "none"), POST=STORED)
    assert "(2 h)" in run("pause", {"for": "2h"})


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (status(404, 'namespaces "desched-system" not found'), "kubectl create namespace"),
        (status(403, "no"), "may not create configmaps.*grant it"),
    ],
)
def test_a_pause_that_must_not_be_written_is_an_error_with_the_remedy(server, run, reply, said):
    server.answer = answering(GET=status(404, "none"), POST=reply)
    with pytest.raises(ConfigurationError, match=said):
        run("pause")


def test_a_pause_that_may_not_have_been_written_is_an_error_with_the_way_to_find_out(server, run):
    server.answer = answering(GET=status(404, "none"), POST=Reply(201, {}, cut_off=True))
    with pytest.raises(ObservationError, match=r"not known.*`desched status`"):
        run("pause")


def test_the_status_reads_the_state_and_the_lease_and_writes_nothing(server, run):
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
    text = run("status")
    assert "pool gpu until it is resumed (started by alice" in text
    assert "desched-1" in text
    assert 'context "lab"' in text
    assert {request.method for request in server.requests} == {"GET"}
    document = json.loads(run("status", output="json"))
    assert document["state"]["pauses"][0]["subject"] == "gpu"
    assert document["lease"]["holder"] == "desched-1"


def test_without_a_lease_and_a_state_the_status_reports_neither(server, run):
    server.answer = lambda _: status(404, "none")
    text = run("status")
    assert "no leader election" in text
    assert "There is none yet in ConfigMap desched-system/desched-state." in text


def test_a_lease_that_may_not_be_read_does_not_hide_the_rest(server, run):
    server.answer = lambda r: status(403 if "leases" in r.path else 404, "no")
    text = run("status")
    assert "not known: " in text
    assert "There is none yet" in text


def test_a_state_that_must_not_be_read_is_an_error(server, run):
    server.answer = lambda _: status(403, "no")
    with pytest.raises(ObservationError, match="may not get configmaps"):
        run("status")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"workload": "default/nosuch"}, "There is no Deployment, StatefulSet, ReplicaSet or Job"),
        ({"workload": "Deployment default/nosuch"}, "or Job default/nosuch now; check the name"),
        ({"namespace": "nosuch"}, "There is no namespace nosuch now; check the name"),
        ({"pool": "gpu"}, "check that its nodePools name gpu"),
    ],
)
def test_a_pause_of_what_is_not_there_is_made_and_noted(server, kubeconfig, capsys, flags, said):
    def answer(request):
        if request.method == "POST":
            return STORED
        namespaces = request.path == "/api/v1/namespaces"
        return Reply(200, {"items": []}) if namespaces else status(404, "none")

    server.answer = answer
    load_to_run("pause").run(Invocation(flags, {"kubeconfig": kubeconfig(server.url)}))
    printed = capsys.readouterr()
    assert printed.out.startswith("Paused")
    assert said in printed.err


@pytest.mark.parametrize("flags", [{}, {"workload": "shop/web"}, {"namespace": "shop"}])
def test_a_pause_of_what_may_be_there_is_not_noted(server, kubeconfig, capsys, flags):
    def answer(request):
        if request.method == "POST":
            return STORED
        return status(404 if "configmaps" in request.path else 403, "none")

    server.answer = answer
    load_to_run("pause").run(Invocation(flags, {"kubeconfig": kubeconfig(server.url)}))
    assert capsys.readouterr().err == ""
