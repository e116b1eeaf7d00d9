"""`desched explain --service`: what a running service answers, as a live explanation reads."""

import socket
from http import HTTPStatus

import pytest

from desched.cli import main
from desched.decision import Decision, decide
from desched.lab.demo import demo_policy
from desched.lab.scenarios import guarded_scenario
from desched.model.state import State
from desched.observation import observe
from desched.service.process.http_endpoints import JSON, Answer, ListenAddress, serve
from desched.service.telemetry.explain_endpoint import NOTHING_YET, ExplainEndpoint, explain_answers
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explanation import explanation_blocks
from desched.views.rendering import rendered
from tests.unit.adapters.kubernetes.fake_api_server import Reply
from tests.unit.service.test_adversarial_outputs import HOSTILE

LOOPBACK = ListenAddress("127.0.0.1", 0)


@pytest.fixture(scope="module")
def decision() -> Decision:
    policy = demo_policy()
    return decide(observe(guarded_scenario().world(acting=False), policy), policy, State())


@pytest.fixture
def answers():
    """What the service answers at /explain; tests replace it."""
    return {}


@pytest.fixture
def url(answers):
    def unlocked(query):
        return answers["/explain"](query)

    with serve(LOOPBACK, {"/explain": unlocked}) as bound:
        yield f"http://127.0.0.1:{bound.port}"


@pytest.fixture
def service(answers, decision):
    endpoint = ExplainEndpoint("the lab")
    endpoint.decided(decision)
    answers.update(explain_answers(endpoint))


def questions(decision):
    plan = decision.plan
    pod = plan.refusals[0].pod
    moved = plan.evictions[0]
    workload = decision.context.cluster.workload_of(
        next(each for each in decision.context.cluster.pods if each.ref == moved.pod)
    )
    yield from (("node", each.node) for each in plan.nodes)
    yield "pod", f"{pod.namespace}/{pod.name}"
    yield "pod", f"{moved.pod.namespace}/{moved.pod.name}"
    yield workload.kind.lower(), f"{workload.namespace}/{workload.name}"


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("form", ["table", "json"])
def test_it_reads_exactly_as_the_live_explanation_does(url, decision, capsys, form):
    for words in questions(decision):
        assert main(["explain", *words, "--service", url, "-o", form]) == 0
        said = capsys.readouterr()
        live = explain(parse_subject(*words), decision, "the lab")
        assert said.out == rendered(live, explanation_blocks(live), form)
        assert f"By the last cycle of the service at {url}" in said.err


@pytest.mark.usefixtures("service")
def test_what_the_cluster_does_not_have_is_a_sentence(url, capsys):
    assert main(["explain", "node", "te99", "--service", f"{url}/"]) == 2
    assert "There is no node te99." in capsys.readouterr().err


def test_a_service_without_a_decision_is_unknown(url, answers, capsys):
    answers.update(explain_answers(ExplainEndpoint("the lab")))
    assert main(["explain", "node", "te1", "--service", url]) == 3
    assert "has decided nothing yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (HTTPStatus.OK, b"<html>"),
        (HTTPStatus.OK, b'{"version": "desched.io/explanation/v2", "target": 3}'),
        (HTTPStatus.OK, b"\xff"),
        (HTTPStatus.FORBIDDEN, b"no"),
        (HTTPStatus.MOVED_PERMANENTLY, b""),
    ],
)
def test_who_is_no_service_of_desched_is_told_from_one(url, answers, capsys, status, body):
    answers["/explain"] = lambda _: Answer(status, JSON, body, {"Location": "/elsewhere"})
    assert main(["explain", "node", "te1", "--service", url]) == 2
    assert "is no service of desched" in capsys.readouterr().err


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("name", ["desched", "service/desched"])
def test_a_service_is_asked_through_the_api_server(
    server, kubeconfig, answers, decision, capsys, name
):
    def leader(request):
        found = answers[request.path](request.query)
        return Reply(found.status, found.body)

    def standby(_):
        return Reply(503, {"problem": NOTHING_YET})

    server.run("lab/desched", standby=standby, leader=leader)
    words = ["explain", "node", "te3", "--service", name, "-o", "json", "--state-namespace", "lab"]
    assert main([*words, "--kubeconfig", kubeconfig(server.url)]) == 0
    live = explain(parse_subject("node", "te3"), decision, "the lab")
    said = capsys.readouterr()
    assert said.out == rendered(live, (), "json")
    assert "By the last cycle of Service lab/desched" in said.err


def test_another_format_names_both(url, answers, capsys):
    body = b'{"version": "desched.io/explanation/v9"}'
    answers["/explain"] = lambda _: Answer(HTTPStatus.OK, JSON, body)
    assert main(["explain", "node", "te1", "--service", url]) == 2
    assert "is in format desched.io/explanation/v9, this desched reads" in capsys.readouterr().err


def test_a_hostile_problem_stays_on_its_line(url, answers, capsys):
    endpoint = ExplainEndpoint("the lab")
    answers["/explain"] = lambda _: endpoint.answer({"kind": HOSTILE})
    assert main(["explain", "node", "te1", "--service", url]) == 2
    shown = capsys.readouterr().err
    assert shown.removesuffix("\n").isprintable()


def test_nobody_at_the_address_is_unknown(capsys):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main(["explain", "node", "te1", "--service", f"http://127.0.0.1:{port}"]) == 3
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--service", "localhost:10280"], "--service: write the URL of a service like http://"),
        (["--service", "http://u:p@h"], "--service: write the URL"),
        (
            ["--service", "http://h", "--snapshot", "f"],
            "--service and --snapshot contradict",
        ),
        (["--service", "http://h", "--policy", "f"], "--policy has no effect with --service"),
        (["--service", "http://h", "--context", "prod"], "--context has no effect with --service"),
        (["--service", "Desched"], "or the name of a Kubernetes Service such as desched, to ask"),
        (
            ["--service", "desched", "--prometheus-url", "http://p"],
            "--prometheus-url has no effect with --service",
        ),
    ],
)
def test_flags_that_do_not_fit_get_a_sentence(capsys, flags, said):
    assert main(["explain", "node", "te1", *flags]) == 2
    assert said in capsys.readouterr().err
