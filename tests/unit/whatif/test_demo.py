"""The demonstration on the GPU cluster, as a person reads it."""

import io

from rich.console import Console

from desched.whatif.demo import run_demo
from tests.shown import print_shown


def test_the_gpu_cluster_is_relieved_and_each_refusal_names_its_object() -> None:
    written = io.StringIO()

    assert run_demo(Console(file=written, width=200), print_shown, scenario="ai") == 0

    said = written.getvalue()
    assert 'Inference may move by desched.io/evict: "true"; other pods with a GPU stay.' in said
    assert "gang train/llama (Volcano): 8 of 8 needed" in said
    assert "model llama-70b is on te4 and te9 only" in said
    assert "no node is overloaded any more" in said
