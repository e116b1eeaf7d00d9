import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from structlog.testing import capture_logs

from desched.bootstrap import trails
from desched.bootstrap.trails import TRACE_VARIABLES, NoTraces, tracing


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


class Collector(BaseHTTPRequestHandler):
    """Keeps the paths and bodies that it gets."""

    received: list[tuple[str, bytes]]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


def test_the_last_spans_are_exported_when_the_run_ends(monkeypatch):
    Collector.received = []
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv(TRACE_VARIABLES[0], f"http://127.0.0.1:{server.server_port}")
            monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=prod")
            with tracing() as found, pytest.raises(KeyError):
                found.cycle(_fail)()
        finally:
            server.shutdown()
            thread.join()
    ((path, body),) = Collector.received
    assert path == "/v1/traces"
    for part in (b"cycle", b"desched", b"prod"):
        assert part in body


def _fail():
    raise KeyError
