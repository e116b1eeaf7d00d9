"""Credentials show up nowhere: not in what desched says, writes down, or is started with.

Each place that may hold one holds a canary of its own, which is then searched for.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, quote_plus, urlsplit

import pytest
import urllib3
import yaml
from certifi import where

from desched.cli import main
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fault_proxy import Answer, Exchange, Fault, FaultProxy
from tests.controlplane.faults import redirect
from tests.controlplane.installation import ALONE, Installation
from tests.controlplane.process import Server
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for

PASSWORD = "p4ssw0rd/of+canary=%"  # noqa: S105  (a canary)
TOKEN = "t0ken-of.canary~1/+=="  # noqa: S105  (a canary)
HEADER = "h3ader+of/canary="
URL = "u7l-of-canary"
CANARIES = (PASSWORD, TOKEN, HEADER, URL)

FORMS = cycle((("json", "json"), ("console", "table"), ("json", "yaml")))
"""Of log and report; they take turns."""


def spellings(secret: str) -> Iterator[str]:
    """The secret plain, escaped, and as a part of anything in base64."""
    yield from (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1])
    yield from (quote(secret), _with_lower_case_digits(quote(secret, safe="")))
    for before in range(3):
        encoded = b64encode(b"\0" * before + secret.encode()).decode()
        yield encoded[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]


def _with_lower_case_digits(encoded: str) -> str:
    return re.sub("%..", lambda digits: digits[0].lower(), encoded)


def _echo(status: int) -> Callable[[Exchange], None]:
    """An answer in everybody's form of an error that repeats all headers, plain and escaped."""

    def act(exchange: Exchange) -> None:
        sent = " ".join(exchange.request.headers.values())
        said = f"{sent} {quote(sent)} {_with_lower_case_digits(quote(sent, safe=''))}"
        body = {"kind": "Status", "status": "error", "error": said, "message": said}
        kind = {"Content-Type": f"application/json; {sent}"}
        exchange.reply(Answer(status, kind, json.dumps(body).encode()))

    return act


def _page(exchange: Exchange) -> None:
    sent = " ".join(exchange.request.headers.values())
    exchange.reply(Answer(200, {"Content-Type": f"text/html; {sent}"}, b"<html>"))


ECHOES = {status: Fault(f"echo {status}", _echo(status)) for status in (200, 400, 401, 403, 503)}
PAGE = Fault("echoing page", _page)


class Place:
    """A cluster and a Prometheus, both behind proxies, and all that desched has said so far."""

    def __init__(
        self, installation: Installation, api_server: FaultProxy, prometheus: FaultProxy
    ) -> None:
        self.installation = installation
        self.plane = installation.plane
        self.api_server = api_server
        self.prometheus = prometheus
        self.directory = installation.directory
        self.policy = installation.policy()
        document = yaml.safe_load(installation.kubeconfig.read_text())
        self.token: str = document["users"][0]["user"]["token"]
        self.kubeconfig = self.kubeconfig_with(self.token, "own")

    def kubeconfig_with(self, token: str, name: str, ca_file: Path | None = None) -> Path:
        """One for this token, and the API server behind its proxy."""
        document = yaml.safe_load(self.installation.kubeconfig.read_text())
        document["users"][0]["user"]["token"] = token
        cluster = document["clusters"][0]["cluster"]
        cluster["server"] = self.api_server.url
        if ca_file is not None:
            cluster["certificate-authority"] = str(ca_file)
        return Path(self.file(f"{name}.kubeconfig", yaml.safe_dump(document)))

    def file(self, name: str, text: str) -> str:
        """The path of a file with this text."""
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def variables(self, kind: str, url: str = "") -> dict[str, str]:
        """The environment in which desched asks Prometheus with credentials of this kind."""
        chosen = {
            "none": {},
            "token": {"BEARER_TOKEN": TOKEN},
            "token file": {"BEARER_TOKEN_FILE": self.file("token", TOKEN)},
            "password": {"USERNAME": "me", "PASSWORD": PASSWORD},
            "password file": {"USERNAME": "me", "PASSWORD_FILE": self.file("password", PASSWORD)},
            "headers": {"HEADERS": json.dumps({"X-Api-Key": HEADER, "Cookie": f"id={HEADER}"})},
            "headers file": {"HEADERS_FILE": self.file("headers", f"X-Api-Key: {HEADER}")},
            "name in the URL": {"URL": f"http://{URL}@{urlsplit(self.prometheus.url).netloc}"},
        }[kind]
        chosen = {"URL": url or self.prometheus.url, "TIMEOUT": "3s", **chosen}
        return {f"DESCHED_PROMETHEUS_{name}": value for name, value in chosen.items()}

    def leaks(self, text: str) -> list[str]:
        """The canaries that stand in a text, in any spelling."""
        signature = self.token.rpartition(".")[2]
        return [
            secret
            for secret in (*CANARIES, signature)
            if any(spelling in text for spelling in spellings(secret))
        ]


@pytest.fixture(scope="module")
def place(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    plane, directory = running_control_plane, tmp_path_factory.mktemp("secrets")
    with ExitStack() as stack:
        stack.callback(plane.reset)
        prometheus = stack.enter_context(plane.prometheus())
        plane.add_node("te1")
        installation = Installation(plane, prometheus, directory)
        installation.install_permissions()
        api_server = FaultProxy.before(plane)
        stack.enter_context(api_server)
        yield Place(installation, api_server, stack.enter_context(FaultProxy(prometheus.url)))


class Ran(NamedTuple):
    """What a run in this process came to, with all that it said in one line."""

    code: int
    said: str


Run = Callable[..., Ran]


@pytest.fixture
def run(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def desched(
        variables: Mapping[str, str],
        *arguments: str,
        policy: Path | None = None,
        kubeconfig: Path | None = None,
    ) -> Ran:
        """With the environment; a single cycle unless a command is named."""
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        log_format, output = next(FORMS)
        once = ("--once", "--evict", ALONE, "--output", output, "--policy")
        given = arguments or (*once, str(policy or place.policy))
        flags = ("--log-level", "debug", "--log-format", log_format)
        code = main([*given, *flags, "--kubeconfig", str(kubeconfig or place.kubeconfig)])
        said = "".join(capsys.readouterr())
        assert place.leaks(said) == []
        return Ran(code, re.sub(r"\s+", " ", said))

    return desched


def first_that_says(sentence: str, run: Callable[[], Ran]) -> Ran:
    """The first of these runs that says so: a busy machine may let a query end at its deadline."""

    def told() -> Ran | None:
        ran = run()
        return ran if sentence in ran.said else None

    found = wait_for(f"a run that says {sentence!r}", told)
    assert found is not None
    return found


KINDS = (
    *("token", "token file", "password", "password file"),
    *("headers", "headers file", "name in the URL"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_way_to_give_credentials_lets_them_be_seen(place: Place, run: Run, kind: str) -> None:
    variables = place.variables(kind)
    first_that_says("te1", lambda: run(variables))

    with place.prometheus.faulty(ECHOES[400]):
        sentence = "could not evaluate the query (HTTP 400)"
        told = first_that_says(sentence, lambda: run(variables))
    assert told.code == 3
    assert "***" in told.said


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (ECHOES[401], "did not accept the credentials (HTTP 401)"),
        (ECHOES[503], "failed (HTTP 503)"),
        (ECHOES[200], "answered with an error instead of data"),
        (PAGE, "something other than query results"),
        (redirect(f"http://{URL}:{PASSWORD}@127.0.0.1/?token={TOKEN}"), "redirects elsewhere"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_nothing_that_prometheus_says_brings_them_out(
    place: Place, run: Run, fault: Fault, sentence: str
) -> None:
    with place.prometheus.faulty(fault):
        told = first_that_says(sentence, lambda: run(place.variables("password")))
    assert told.code == 3


@pytest.mark.parametrize(
    ("scheme", "host", "sentence"),
    [("https", "", "does not speak TLS"), ("https", "127.0.0.1:1", "cannot be reached")],
)
def test_a_prometheus_that_is_not_reached_does_not_bring_them_out(
    place: Place, run: Run, scheme: str, host: str, sentence: str
) -> None:
    url = f"{scheme}://{host or urlsplit(place.prometheus.url).netloc}"
    told = first_that_says(sentence, lambda: run(place.variables("token", url)))
    assert told.code == 3


COMMANDS = ((), ("status",), ("pause",))


@pytest.mark.parametrize("command", COMMANDS, ids=str)
@pytest.mark.parametrize("status", [400, 401, 403])
def test_nothing_that_the_api_server_says_brings_them_out(
    place: Place, run: Run, status: int, command: tuple[str, ...]
) -> None:
    with place.api_server.faulty(ECHOES[status]):
        told = run(place.variables("none"), *command)
    assert told.code == 3
    assert str(status) in told.said


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_token_that_is_refused_is_not_told(
    place: Place, run: Run, command: tuple[str, ...]
) -> None:
    refused = place.kubeconfig_with(TOKEN, "refused")
    assert "are not accepted (401)" in run({}, *command, kubeconfig=refused).said
    unusable = place.kubeconfig_with(f"{TOKEN}\n{TOKEN}", "unusable")
    assert "characters that no token can have" in run({}, *command, kubeconfig=unusable).said


def test_an_api_server_that_is_not_trusted_is_not_told_nor_tells(place: Place, run: Run) -> None:
    stranger = place.kubeconfig_with(TOKEN, "stranger", Path(where()))
    told = run({}, kubeconfig=stranger)
    assert told.code == 3
    assert "the TLS connection failed" in told.said


def test_credentials_where_they_do_not_belong_are_refused_and_not_repeated(
    place: Place, run: Run
) -> None:
    url = f"http://me:{quote(PASSWORD, safe='')}@prometheus"
    policy = place.installation.policy("leaky", metrics={"type": "prometheus", "address": url})
    assert "must not contain a password" in run({}, "--once", "--prometheus-url", url).said
    assert "holds a user name or password" in run({}, policy=policy).said
    for name, value in (
        ("PROMETHEUS_HEADERS", f"X-Api-Key {HEADER}"),
        ("PROMETHEUS_URL", f"http://me:{PASSWORD}@prometheus"),
        ("PROMETHEUS_TOKEN", TOKEN),
    ):
        assert run({f"DESCHED_{name}": value}).code == 2


def test_a_service_keeps_them_out_of_all_that_others_can_read(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    installation, plane = place.installation, place.plane
    policy = installation.policy("of-the-service")
    flags = ("--interval", "1s", "--listen-address", "127.0.0.1:0", "--log-format", "json")
    command = installation.arguments(
        *("--evict", ALONE, "--log-level", "debug", "--output", "json", *flags),
        policy=policy,
        kubeconfig=place.kubeconfig,
    )
    variables = {**place.variables("password file"), **place.variables("headers")}
    service = Server(
        "service", command, place.directory, {**variables, "DESCHED_POD_NAME": "desched-0"}
    )

    def has_said(text: str) -> bool:
        return text in service.log.read_text()

    service.wait_until("a cycle", lambda: has_said("cycle.completed"))
    (port,) = set(re.findall(r'"service.started".*"port": ([0-9]+)', service.log.read_text()))
    http = urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS)

    def shown() -> str:
        url = f"http://127.0.0.1:{port}"
        return "".join(
            http.request("GET", url + path).data.decode()
            for path in ("/", "/metrics", "/status", "/explain?kind=node&name=te1", "/healthz")
        )

    capsys.readouterr()
    assert main(["explain", "node", "te1", "--service", f"http://127.0.0.1:{port}"]) == 0
    assert "te1 is " in capsys.readouterr().out
    assert '"instance": "desched-0' in shown()
    assert place.leaks(shown()) == []
    assert place.leaks((Path("/proc") / str(service.pid) / "cmdline").read_text()) == []

    address = f"http://me:{PASSWORD}@prometheus"
    installation.policy(policy.stem, metrics={"type": "prometheus", "address": address})
    service.wait_until("a refusal of the policy", lambda: has_said("policy.refused"))
    with place.prometheus.faulty(ECHOES[401]):
        service.wait_until("a skipped cycle", lambda: has_said("did not accept the credentials"))
    with place.api_server.faulty(ECHOES[403]):
        service.wait_until("another one", lambda: has_said("may not"))
    assert place.leaks(shown()) == []
    service.stop(grace=PATIENCE_SECONDS)
    assert place.leaks(service.log.read_text()) == []
    kinds = "events,configmaps,leases"
    written = plane.kubectl("get", kinds, "--all-namespaces", "--output", "json")
    assert "PolicyRefused" in written
    assert "state.json" in written
    assert place.leaks(written) == []
