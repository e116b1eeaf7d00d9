"""Objects that an API server should never send are an error in words, in bounded time."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.api_types import nodes, pods
from desched.adapters.kubernetes.events import LONGEST_NOTE_BYTES, EventWriter
from desched.adapters.kubernetes.evictor import LONGEST_MESSAGE, KubernetesEvictor
from desched.adapters.kubernetes.objects.nodes import node
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.adapters.kubernetes.state_store import KubernetesStateStore
from desched.api_objects.decoding import Decoder
from desched.errors import ObservationError
from desched.lab.clock import VirtualClock
from desched.model.bounds import LARGEST_AMOUNT
from desched.model.cluster import Pod, PodRef
from desched.model.report import EvictionVerdict
from desched.model.resources import quantity
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)

DEEP = b'{"kind": "Status", "metadata": {"name": "x"}, "x": ' + b"[" * 10**6 + b"]" * 10**6 + b"}"
HOSTILE = "\x1b[2J\x9b1m\u202e\u2028<b>"


def pod_of(document: manifests.Object) -> Pod:
    return Decoder(pods.Pod, PodBuilder().pod).one(msgspec.json.encode(document))


def changed(document: manifests.Object, part: str, **fields: object) -> manifests.Object:
    document[part] |= fields
    return document


@pytest.mark.parametrize(
    "read",
    [
        Decoder(pods.Pod, PodBuilder().pod).one,
        Decoder(pods.Pod, PodBuilder().pod).page,
        Decoder(nodes.Node, node).page,
    ],
    ids=["a pod", "pods", "nodes"],
)
def test_nesting_without_end_is_an_error(read: Callable[[bytes], object]) -> None:
    with pytest.raises(ObservationError, match="cannot be read"):
        read(DEEP)


def test_nesting_without_end_is_no_status_and_no_memory(server: FakeApiServer) -> None:
    assert Answer(500, DEEP).status_object is None
    server.answer = lambda _: Reply(body=DEEP)
    with pytest.raises(ObservationError, match="the answer is no ConfigMap"):
        KubernetesStateStore(connection_to(server), "desched-system").load()


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1e400", LARGEST_AMOUNT),
        ("-1e400", -LARGEST_AMOUNT),
        ("1e15", 10**15),
        ("1e-400", 1),
        ("-1", -1),
        ("9" * 60, LARGEST_AMOUNT),
        ("8Ei", LARGEST_AMOUNT),
        ("1P", 10**15),
        ("1E3", 1000),
    ],
)
def test_absurd_quantities_are_capped(text: str, amount: int) -> None:
    assert quantity(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        *("1e9999999", "1e999999", "-1e999999", "1e999999Ei", "1e", "e3", "1e3k", "1_0", "0x10"),
        *("", "-", " 1", "1\n", "\u0661", "nan", "-inf", "9" * 5000),
    ],
    ids=repr,
)
def test_what_is_no_quantity_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantity(text)
    document = manifests.pod()
    document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = text
    with pytest.raises(ObservationError, match="shop/web-1 cannot be read"):
        pod_of(document)


def test_a_node_may_have_nothing_or_less() -> None:
    document = changed(manifests.node(), "status", capacity=None, allocatable={"cpu": "-4"})
    found = Decoder(nodes.Node, node).one(msgspec.json.encode(document))
    assert (found.capacity.cpu_millicores, found.allocatable.cpu_millicores) == (0, 0)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_pod_may_be_as_old_as_the_calendar(year: int) -> None:
    at = datetime(year, 1, 1, tzinfo=UTC)
    document = changed(manifests.pod(), "metadata", creationTimestamp=f"{at.isoformat()}")
    assert pod_of(document).created_at == at


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("metadata", {"creationTimestamp": "2026-01-01T00:00:00"}),
        ("metadata", {"creationTimestamp": "0000-01-01T00:00:00Z"}),
        ("metadata", {"creationTimestamp": None}),
        ("metadata", {"uid": ""}),
        ("metadata", {"name": ""}),
        ("spec", {"priority": 2**31}),
        ("spec", {"priority": 10**30}),
        ("spec", {"terminationGracePeriodSeconds": 2**63}),
        ("spec", {"priority": 1.5}),
    ],
)
def test_what_is_outside_of_the_api_names_the_pod(part: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ObservationError, match=r"The Pod .*cannot be read"):
        pod_of(changed(manifests.pod(), part, **fields))


def test_the_message_of_a_webhook_is_shortened(server: FakeApiServer) -> None:
    server.answer = lambda _: status(403, HOSTILE * 10**5)
    connection = connection_to(server)
    evictor = KubernetesEvictor(connection, EventWriter(connection, VirtualClock()))
    answer = evictor.evict(PodRef("shop", "web-1", "uid"), "hot")
    assert answer.verdict is EvictionVerdict.FORBIDDEN
    assert len(answer.detail) <= LONGEST_MESSAGE


def test_a_note_holds_nothing_that_a_terminal_obeys(server: FakeApiServer) -> None:
    server.answer = lambda _: Reply(201, {})
    own = PodRef("desched-system", "desched-0")
    writer = EventWriter(connection_to(server), VirtualClock(), own)
    assert writer.warn_on_self("Paused", f"a\n{HOSTILE}" * 999)
    note = server.requests[-1].body["note"]
    assert len(note.encode()) <= LONGEST_NOTE_BYTES
    assert all(line.isprintable() for line in note.split("\n"))
