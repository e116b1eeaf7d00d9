"""Whatever a server sends is either understood or an ObservationError, never a crash."""

import copy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import desched
from desched.adapters.kubernetes.client.access import LIST_PODS
from desched.adapters.kubernetes.client.api_types.pods import Pod
from desched.adapters.kubernetes.objects.budgets import BUDGETS
from desched.adapters.kubernetes.objects.nodes import NODES
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.api_objects.kinds import Kind
from desched.errors import ObservationError
from tests.unit.adapters.kubernetes import manifests

RICH_POD = manifests.pod(
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
            ],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
            ],
        },
    },
    topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    initContainers=[{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
    resources={"requests": {"cpu": "1"}},
    overhead={"cpu": "1m"},
    nodeSelector={"a": "b"},
)
WRONG: tuple[object, ...] = (None, [], {}, 7, -1.5, "x", True, [None], {"x": None})

Keys = tuple[str | int, ...]


def paths(tree: Any, here: Keys = ()) -> Iterator[Keys]:
    if here:
        yield here
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from paths(value, (*here, key))


def changed(tree: Any, path: Keys, value: object) -> Any:
    found = copy.deepcopy(tree)
    parent = found
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return found


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (RICH_POD, Kind(LIST_PODS, Pod, PodBuilder().pod)),
        (manifests.node(), NODES),
        (
            manifests.budget({"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            BUDGETS,
        ),
    ],
)
def test_any_part_may_be_missing_or_of_another_shape(
    document: manifests.Object, kind: Kind[Any, Any]
) -> None:
    decoder = kind.decoder()
    understood = 0
    for path in paths(document):
        for value in WRONG:
            body = msgspec.json.encode(changed(document, path, value))
            with suppress(ObservationError):
                decoder.one(body)
                understood += 1
    assert understood


def test_an_empty_page_has_no_values_and_ends_the_list() -> None:
    assert NODES.decoder().page(b'{"items": null, "metadata": {"continue": null}}') == ([], "", "")


MANY_THREADS_MAKE_DECODERS = """
import sys
from threading import Barrier, Thread

from msgspec import Struct

from desched.api_objects.decoding import Decoder

sys.setswitchinterval(1e-6)


def a_type():
    class Inner(Struct):
        a: int | None = None
        b: str | None = None

    class Outer(Struct):
        a: dict[str, Inner] | None = None
        b: tuple[Inner, ...] = ()
        c: list[str] | None = None

    return Outer


def decode(kind, barrier):
    barrier.wait()
    Decoder(kind, bool).one(b'{"a": {"x": {"a": 3, "b": "y"}}, "b": [{"a": 1}], "c": ["x"]}')


for _ in range(150):
    kind, barrier = a_type(), Barrier(6)
    threads = [Thread(target=decode, args=(kind, barrier)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_make_decoders_at_the_same_time() -> None:
    """msgspec lets other threads use a type that it has half read, and then crashes."""
    ended = subprocess.run(  # noqa: S603  (this Python)
        [sys.executable, "-c", MANY_THREADS_MAKE_DECODERS],
        capture_output=True,
        check=False,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_decoder_is_made_for_a_single_answer() -> None:
    """Other decoders are made while modules are imported, in one thread."""
    package = Path(desched.__file__).parent
    made = [path for path in package.rglob("*.py") if "msgspec.json.decode(" in path.read_text()]
    assert made == []
