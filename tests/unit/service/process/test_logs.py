import io
import json
import logging

import pytest
import structlog

from desched.service.process.logs import configure_logs


@pytest.fixture
def stream():
    return io.StringIO()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_person_gets_text_although_he_keeps_it_in_a_file(stream):
    configure_logs("auto", "warning", stream)
    structlog.get_logger("any").warning("policy.warned", warning="numberOfNodes is 0")
    assert "policy.warned" in stream.getvalue()
    assert not stream.getvalue().startswith("{")
    assert "\x1b" not in stream.getvalue()


def test_a_pipe_of_a_service_gets_one_json_object_a_line(stream):
    configure_logs("auto", "info", stream, service=True)
    structlog.get_logger("any").info("cycle.completed", refusals={"bare_pod": 1})
    structlog.get_logger("any").warning("tick.skipped")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "cycle.completed"
    assert first["refusals"] == {"bare_pod": 1}
    assert list(first)[:3] == ["timestamp", "level", "event"]
    assert first["timestamp"].endswith("Z")
    assert second["level"] == "warning"


def test_a_terminal_gets_text_for_people():
    stream = Terminal()
    configure_logs("auto", "info", stream, service=True)
    structlog.get_logger("any").info("cycle.completed", cycle=3)
    assert "cycle.completed" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_a_terminal_can_have_json_too():
    stream = Terminal()
    configure_logs("json", "info", stream)
    structlog.get_logger("any").info("cycle.completed")
    assert json.loads(stream.getvalue())["event"] == "cycle.completed"


def test_less_than_the_level_is_not_logged(stream):
    configure_logs("json", "warning", stream)
    structlog.get_logger("any").info("cycle.completed")
    logging.getLogger("library").info("hello")
    assert stream.getvalue() == ""


def test_names_of_objects_cannot_steer_the_terminal(stream):
    configure_logs("console", "info", stream)
    structlog.get_logger("any").info(
        "cycle.completed", evictions=["shop/\x1b[2Jweb"], why="\x1b]0;owned\x07", nodes={"\x9b": 1}
    )
    logging.getLogger("library").warning("said \x1b[31m")
    text = stream.getvalue()
    assert not set(text) & {"\x1b", "\x07", "\x9b"}
    assert "\\x1b[2Jweb" in text


def test_what_libraries_log_has_the_same_form(stream):
    configure_logs("json", "info", stream)
    logging.getLogger("library").warning("the pool is %s", "full")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"]) == ("the pool is full", "warning")


def test_what_libraries_send_is_not_logged_at_any_level(stream):
    configure_logs("json", "debug", stream)
    logging.getLogger("requests_oauthlib.oauth2_session").debug("refresh_token=%s", "s3cr3t")
    logging.getLogger("oauthlib").info("access_token=%s", "s3cr3t")
    assert stream.getvalue() == ""


def test_libraries_that_log_each_request_are_heard_only_with_errors(stream):
    configure_logs("json", "info", stream)
    logging.getLogger("apscheduler.scheduler").warning("skipped")
    assert stream.getvalue() == ""
    logging.getLogger("apscheduler.scheduler").error("broken")
    assert json.loads(stream.getvalue())["event"] == "broken"


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_does_not_show_what_variables_held(stream, form):
    configure_logs(form, "info", stream)
    password = "s3cr3t-" + "value"
    try:
        raise ValueError("boom")  # noqa: TRY301  (the traceback has to have a frame here)
    except ValueError:
        structlog.get_logger("any").exception("cycle.crashed")
    assert "ValueError: boom" in stream.getvalue()
    assert password not in stream.getvalue()
