import pytest

from desched.adapters.kubernetes.sample_store import KubernetesSampleStore
from desched.errors import ObservationError
from tests.unit.adapters.kubernetes.fake_api_server import Reply, connection_to, status

CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}}
PATH = "/api/v1/namespaces/desched-system/configmaps/desched-state"


@pytest.fixture
def store(server):
    return KubernetesSampleStore(connection_to(server), "desched-system")


def test_a_write_changes_only_its_own_key(server, store):
    server.answer = lambda _: Reply(body={})
    store.write("abc")
    (request,) = server.requests
    assert (request.method, request.path) == ("PATCH", PATH)
    assert request.body == {"data": {"load-samples": "abc"}}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(body={**CONFIG_MAP, "data": {"load-samples": "abc", "state.json": "{}"}}), "abc"),
        (Reply(body={**CONFIG_MAP, "data": {"state.json": "{}"}}), ""),
        (Reply(body=CONFIG_MAP), ""),
        (status(404, "not found"), ""),
    ],
)
def test_the_text_is_read(server, store, reply, text):
    server.answer = lambda _: reply
    assert store.read() == text


@pytest.mark.parametrize("reply", [status(403, "no"), Reply(404, b"a proxy"), Reply(body=[])])
def test_what_cannot_be_read_is_said(server, store, reply):
    server.answer = lambda _: reply
    with pytest.raises(ObservationError, match="not read"):
        store.read()


def test_what_cannot_be_written_is_said(server, store):
    server.answer = lambda _: status(403, "no")
    with pytest.raises(ObservationError, match=r"not kept: the account may not patch configmaps"):
        store.write("abc")
