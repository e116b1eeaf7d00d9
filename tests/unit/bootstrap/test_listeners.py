import contextlib
import http.client
from http import HTTPStatus

import pytest

from desched.bootstrap.listeners import Listeners, listeners_of, listening
from desched.errors import ConfigurationError
from desched.service.process.http_endpoints import TEXT, Answer, ListenAddress
from desched.settings import Settings

PROBES = {"/healthz": lambda _: Answer(HTTPStatus.OK, TEXT, b"ok\n")}
PAGES = {"/": lambda _: Answer(HTTPStatus.OK, TEXT, b"page\n")}


def ask(port, path, host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=120)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


@pytest.mark.parametrize(
    ("flags", "in_cluster", "probes", "pages"),
    [
        ({}, True, ("", 10258), ("127.0.0.1", 10280)),
        ({}, False, ("127.0.0.1", 10258), ("127.0.0.1", 10258)),
        ({"listen_address": ":1"}, False, ("", 1), ("127.0.0.1", 10280)),
        ({"listen_address": "[::1]:1"}, True, ("::1", 1), ("::1", 1)),
        ({"listen_address": "10.0.0.1:1"}, True, ("10.0.0.1", 1), ("127.0.0.1", 10280)),
        ({"pages_address": ":2"}, True, ("", 10258), ("", 2)),
        ({"pages_address": "127.0.0.1:2"}, False, ("127.0.0.1", 10258), ("127.0.0.1", 2)),
    ],
)
def test_pages_are_on_loopback_unless_somebody_asks_for_more(flags, in_cluster, probes, pages):
    assert listeners_of(Settings(**flags), in_cluster=in_cluster) == (probes, pages)


def test_an_address_of_another_form_names_its_flag():
    with pytest.raises(ConfigurationError, match=r"--pages-address \(DESCHED_PAGES_ADDRESS\): "):
        listeners_of(Settings(pages_address="10280"), in_cluster=True)


def test_who_reaches_the_probes_from_elsewhere_does_not_reach_the_pages():
    listeners = Listeners(ListenAddress("", 0), ListenAddress("127.0.0.1", 0))
    with listening(listeners, PROBES, {**PROBES, **PAGES}) as ports:
        elsewhere = "127.0.0.2"  # stands for the address of the pod
        assert ask(ports["port"], "/healthz", elsewhere) == (200, "ok\n")
        status, said = ask(ports["port"], "/", elsewhere)
        assert status == 404
        assert f"pages are at 127.0.0.1:{ports['pages_port']}" in said
        with pytest.raises(ConnectionRefusedError):
            ask(ports["pages_port"], "/", elsewhere)
        assert ask(ports["pages_port"], "/") == (200, "page\n")
        assert ask(ports["pages_port"], "/healthz") == (200, "ok\n")


def test_one_address_for_both_has_everything():
    same = ListenAddress("127.0.0.1", 0)
    with listening(Listeners(same, same), PROBES, {**PROBES, **PAGES}) as ports:
        assert ports["port"] == ports["pages_port"]
        assert ask(ports["port"], "/") == (200, "page\n")
