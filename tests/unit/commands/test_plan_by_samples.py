"""`desched plan --wait` and its neighbours, on a cluster that has only metrics-server."""

import json
from copy import deepcopy

import pytest

from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.doctor.proposed_policy import STARTING_POLICY
from desched.model.cluster import ClusterState
from desched.policy_file.loading import load_policy
from desched.service.process.clock import SystemClock
from desched.service.telemetry.samples_endpoint import samples_answers
from tests.builders import node
from tests.unit.adapters.kubernetes.fake_api_server import (
    Reply,
    connection_to,
)
from tests.unit.commands.test_doctor import NODE, POD

BY_METRICS_SERVER = STARTING_POLICY.replace("{type: prometheus}", "{type: metrics-server}")


@pytest.fixture
def cluster(sampled):
    """Two nodes, of which one is hot."""
    cold = deepcopy(NODE)
    cold["metadata"] |= {"name": "n-b", "uid": "v"}
    sampled.server.lists |= {"/api/v1/nodes": [NODE, cold], "/api/v1/pods": [POD]}
    sampled.usage = {"n-a": "3600m", "n-b": "1"}
    sampled.pod_usage = {("shop", "web-1"): "2"}
    sampled.begin(0)
    return sampled


@pytest.fixture
def run(cluster, command_line):  # noqa: ARG001 (what it runs on)
    """Runs a command from a laptop; its exit code, and what it printed."""
    return command_line


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
    assert report["policy"] == f"{path} (windows: 3m)"


def test_a_single_look_shows_the_load_and_which_commands_help(run, policy):
    code, out, err = run("plan", "--policy", str(policy), "-o", "json")
    assert code == 3
    unjudged = {each["node"]: each["unjudged"] for each in json.loads(out)["plan"]["nodes"]}
    assert unjudged["n-a"][0]["measured"][0] == [300, pytest.approx(0.9)]
    assert "`desched plan --wait 3m` takes samples for three minutes" in err
    assert "decides after 5m" in err


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
    assert "decides after 5m" in checks["history"]["found"]
    assert code == 0


def test_the_doctor_names_what_to_ask_where_metrics_server_knows_no_node(run, cluster, policy):
    cluster.usage = {}
    cluster.begin(0)
    code, out, _ = run("doctor", "--policy", str(policy), "-o", "json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert checks["nodes"]["verdict"] == "problem"
    assert code == 3
    assert "kubectl top nodes" in checks["nodes"]["fix"]


def test_a_plan_at_another_price_says_so(run, policy):
    _, out, _ = run("plan", "--policy", str(policy), "--price", "3m", "-o", "json")
    assert json.loads(out)["policy"] == f"{policy} (evictionPrice: 3m)"
    words = ("--price", "3m", "--wait", "3m", "-o", "json")
    _, out, _ = run("plan", "--policy", str(policy), *words)
    assert json.loads(out)["policy"] == f"{policy} (evictionPrice: 3m) (windows: 3m)"
