"""`desched plan --wait` and its neighbours, on a cluster that has only metrics-server."""

import json
from copy import deepcopy
from datetime import timedelta
from email.utils import format_datetime

import pytest

from desched import observation
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.bootstrap import doctor_questions
from desched.cli import main
from desched.doctor.proposed_policy import STARTING_POLICY
from desched.model.cluster import ClusterState
from desched.policy.loading import load_policy
from desched.service.process.clock import SystemClock
from desched.service.telemetry.samples_endpoint import samples_answers
from tests.builders import node
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)
from tests.unit.adapters.metrics_apis.test_reader import NODES, PODS, node_metrics, pod_metrics
from tests.unit.commands.test_doctor import NODE, POD, REVIEWS

BY_METRICS_SERVER = STARTING_POLICY.replace("{type: prometheus}", "{type: metrics-server}")


class Cluster:
    """Two nodes, of which one is hot; its clock moves only while desched waits."""

    def __init__(self, server):
        self.server, self.usage = server, {"n-a": "3600m", "n-b": "1"}
        cold = deepcopy(NODE)
        cold["metadata"] |= {"name": "n-b", "uid": "v"}
        server.lists["/api/v1/nodes"] = [NODE, cold]
        server.lists["/api/v1/pods"] = [POD]
        server.answer = self.answer
        self.at = SystemClock().now()

    def begin(self, seconds_ago):
        self.at = SystemClock().now() - timedelta(seconds=seconds_ago)
        self.move(0)

    def move(self, seconds):
        self.at += timedelta(seconds=seconds)
        self.server.date = format_datetime(self.at, usegmt=True)
        self.server.lists[NODES] = [
            node_metrics(self.at, name, cpu=cpu) for name, cpu in self.usage.items()
        ]
        pod = pod_metrics(self.at, ("2", "1Gi"))
        pod["metadata"]["namespace"] = "shop"
        self.server.lists[PODS] = [pod]

    @staticmethod
    def answer(request):
        if request.path == REVIEWS:
            return Reply(201, {"status": {"allowed": True}})
        return status(404, "not found") if "/configmaps/" in request.path else None


@pytest.fixture
def cluster(mocker):
    with FakeApiServer() as server:
        built = Cluster(server)

        def wait(_clock, seconds):
            built.move(seconds)
            return False

        mocker.patch.object(SystemClock, "wait", autospec=True, side_effect=wait)
        # How long the test itself takes is no difference of clocks.
        for module in (observation, doctor_questions):
            mocker.patch.object(module, "lead_seconds", autospec=True, return_value=0.0)
        built.begin(0)
        yield built


@pytest.fixture
def run(cluster, kubeconfig, monkeypatch, capsys):
    """Runs a command from a laptop; its exit code, and what it printed."""
    for variable in ("DESCHED_PROMETHEUS_URL", "DESCHED_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DESCHED_KUBECONFIG", kubeconfig(cluster.server.url))

    def run(*words):
        code = main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(BY_METRICS_SERVER)
    return path


def test_two_commands_lead_to_a_plan_without_any_prometheus(run, cluster, tmp_path):
    path = tmp_path / "written.yaml"
    _, _, err = run("doctor", "--write-policy", str(path))
    assert "type: metrics-server" in path.read_text()
    assert "The fullest of 2 nodes is at 90 % today." in path.read_text()
    assert f"`desched plan --policy {path} --wait 3m`" in err

    cluster.begin(180)
    code, out, _ = run("plan", "--policy", str(path), "--wait", "3m", "-o", "json")
    report = json.loads(out)
    assert report["plan"]["hold"] is None
    assert code == 0
    (hot,) = (each for each in report["plan"]["nodes"] if each["node_class"] == "overloaded")
    assert hot["node"] == "n-a"
    measured = {each["resource"]: each["measured"] for each in hot["pressures"]}
    assert measured["cpu"] == [[180, pytest.approx(0.9)]]
    assert report["policy"] == f"{path} (windows: 3m, sustainedFor: 0s)"


def test_a_single_look_shows_the_load_and_which_commands_help(run, policy):
    code, out, err = run("plan", "--policy", str(policy), "-o", "json")
    assert code == 3
    unjudged = {each["node"]: each["unjudged"] for each in json.loads(out)["plan"]["nodes"]}
    assert unjudged["n-a"][0]["measured"][0] == [300, pytest.approx(0.9)]
    assert "`desched plan --wait 3m` takes samples for three minutes" in err
    assert "decides after 10m" in err


def test_a_single_look_plans_by_the_samples_of_the_running_service(run, cluster, policy):
    """As `desched plan` does from a laptop, through the API server."""
    taken = SampledLoadReader(connection_to(cluster.server), lambda _: False, deadline_seconds=30.0)
    by = load_policy(policy).policy
    state = ClusterState(tuple(map(node, ("n-a", "n-b"))), ())
    cluster.begin(1200)
    while cluster.at < SystemClock().now():
        taken.read_load(state, by)
        cluster.move(15)
    samples = samples_answers(taken.kept)

    def answer(request):
        found = samples[request.path](request.query)
        return Reply(found.status, found.body)

    cluster.server.run("desched-system/desched", leader=answer)
    code, out, err = run("plan", "--policy", str(policy), "-o", "json")
    report = json.loads(out)
    assert report["plan"]["hold"] is None, err
    (hot,) = (each for each in report["plan"]["nodes"] if each["node_class"] == "overloaded")
    assert hot["node"] == "n-a"
    assert code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--wait", "soon"), '--wait: "soon" is not a duration'),
        (("--wait", "1m"), '--wait: found "1m"; allowed are 2m to 1h.'),
        (("--wait", "3m", "--snapshot", "f"), "--wait has no effect with --snapshot; omit it."),
    ],
)
def test_a_wait_that_covers_no_window_is_refused(run, policy, words, said):
    code, _, err = run("plan", *words, *(("--policy", str(policy)) * ("--snapshot" not in words)))
    assert code == 2
    assert said in err


def test_prometheus_needs_no_wait(run, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(STARTING_POLICY)
    code, _, err = run("plan", "--policy", str(path), "--wait", "3m")
    assert code == 2
    assert "--wait is for metrics-server and the custom metrics API, which have no" in err


def test_the_doctor_judges_by_the_newest_samples(run, policy):
    code, out, _ = run("doctor", "--policy", str(policy), "-o", "json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert checks["prometheus"]["verdict"] == "ok"
    assert "`desched plan --wait 3m`" in checks["prometheus"]["fix"]
    assert checks["nodes"]["found"].startswith("2 nodes have trusted load, 0 unknown")
    assert checks["thresholds"]["found"].startswith("1 node is overloaded now")
    assert "decides after 10m" in checks["history"]["found"]
    assert code == 0


def test_the_doctor_names_what_to_ask_where_metrics_server_knows_no_node(run, cluster, policy):
    cluster.usage = {}
    cluster.begin(0)
    code, out, _ = run("doctor", "--policy", str(policy), "-o", "json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert checks["nodes"]["verdict"] == "problem"
    assert code == 3
    assert "kubectl top nodes" in checks["nodes"]["fix"]
