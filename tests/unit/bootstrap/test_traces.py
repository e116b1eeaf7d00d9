import pytest
from structlog.testing import capture_logs

from desched.bootstrap import trails
from desched.bootstrap.trails import TRACE_VARIABLES, NoTraces, tracing
from tests.loopback import Handler, Server


@pytest.fixture(autouse=True)
def _no_collector(monkeypatch):
    for name in TRACE_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_collector_nothing_is_traced():
    with tracing() as found, capture_logs() as logs:
        assert isinstance(found, NoTraces)
    assert not logs


@pytest.mark.parametrize("variable", TRACE_VARIABLES)
def test_without_the_library_one_line_names_what_to_install(variable, monkeypatch, mocker):
    monkeypatch.setenv(variable, "http://127.0.0.1:4318")
    mocker.patch.object(trails, "find_spec", autospec=True, return_value=None)
    with capture_logs() as logs, tracing() as found:
        assert isinstance(found, NoTraces)
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("traces.not_exported", "warning")
    assert "pip install 'desched[otel]'" in line["reason"]


class Collector(Handler):
    """Keeps the paths and bodies that it gets."""

    received: list[tuple[str, bytes]]

    def respond(self):
        self.received.append((self.path, self.body()))
        self.reply(b"")


def test_the_last_spans_are_exported_when_the_run_ends(monkeypatch):
    Collector.received = []
    with Server(Collector) as server:
        monkeypatch.setenv(TRACE_VARIABLES[0], server.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=prod")
        with tracing() as found, pytest.raises(KeyError):
            found.cycle(_fail)()
    ((path, body),) = Collector.received
    assert path == "/v1/traces"
    for part in (b"cycle", b"desched", b"prod"):
        assert part in body


def _fail():
    raise KeyError
