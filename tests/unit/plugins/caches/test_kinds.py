"""R1.2, X3: which nodes hold a model, as KServe and GPUStack write it into their objects."""

import json
from typing import Any

import pytest

from desched.plugins.caches.kinds import MODEL_CACHES
from desched.plugins.caches.models import GPUSTACK, KSERVE
from desched.plugins.caches.objects import ModelCopies

LLAMA, QWEN = f"sha256:{'3' * 64}", f"sha256:{'4' * 64}"
READY = [{"type": "Ready", "status": "True"}]


def read(system: str, name: str, status: Any) -> ModelCopies:
    body = {"metadata": {}, "items": [{"metadata": {"name": name}, "status": status}]}
    (found,) = MODEL_CACHES[system].decoder().page(json.dumps(body).encode()).values
    return found


def test_a_cache_of_kserve_is_on_the_nodes_that_have_downloaded_it() -> None:
    """R1.2: NodeDownloading is not Ready."""
    states = {
        "te9": "NodeDownloaded",
        "te4": "NodeDownloaded",
        "te5": "NodeDownloading",
        "te6": "NodeDownloadPending",
        "te7": "NodeDownloadError",
        "te8": "NodeNotReady",
    }
    found = read(KSERVE, "llama", {"nodeStatus": states, "copies": {"total": 6}})
    assert found == ModelCopies(KSERVE, ("llama",), ("te4", "te9"))


def test_a_store_of_gpustack_has_the_digests_that_are_ready() -> None:
    models = [
        {"digest": LLAMA, "state": "Ready", "sizeBytes": 1},
        {"digest": QWEN, "state": "Downloading"},
    ]
    found = read(GPUSTACK, "te4", {"models": models, "conditions": READY})
    assert found == ModelCopies(GPUSTACK, (LLAMA,), ("te4",))


@pytest.mark.parametrize(
    "conditions", [None, [], [{"type": "Ready", "status": "Unknown"}], [{"type": "Other"}]]
)
def test_a_store_that_is_not_ready_has_no_model(conditions: Any) -> None:
    """X4: its plugin may be gone."""
    models = [{"digest": LLAMA, "state": "Ready"}]
    found = read(GPUSTACK, "te4", {"models": models, "conditions": conditions})
    assert not found.models


@pytest.mark.parametrize("system", MODEL_CACHES)
@pytest.mark.parametrize("status", [None, {}, {"nodeStatus": None}, {"models": None}])
def test_nothing_is_held_before_the_status_is_written(system: str, status: Any) -> None:
    found = read(system, "te4", status)
    assert not (found.models and found.nodes)


@pytest.mark.parametrize("system", MODEL_CACHES)
@pytest.mark.parametrize("status", [7, {"nodeStatus": [1], "models": "all"}])
def test_what_cannot_be_read_is_on_no_node(system: str, status: Any) -> None:
    """X3, X4: never an error for the cycle."""
    assert read(system, "te4", status) == ModelCopies(system)


def test_all_systems_may_be_absent() -> None:
    """X3: they are asked for where the API server serves them."""
    assert all(kind.is_optional and kind.is_discovered for kind in MODEL_CACHES.values())
