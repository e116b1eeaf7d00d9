"""The demonstration on the GPU cluster, as a person reads it."""

import io

from rich.console import Console

from desched.whatif.demo import DEMONSTRATIONS, demo_policy, run_demo
from desched.whatif.demo_picture import RecordedScene
from tests.shown import print_shown


def test_the_gpu_cluster_is_relieved_and_each_refusal_names_its_object() -> None:
    written = io.StringIO()

    assert run_demo(Console(file=written, width=200), print_shown, scenario="ai") == 0

    said = written.getvalue()
    assert 'Inference may move by desched.io/evict: "true"; other pods with a GPU stay.' in said
    assert "gang train/llama (Volcano): 8 of 8 needed" in said
    assert "model llama-70b is on te4 and te9 only" in said
    assert "no node is overloaded any more" in said


def test_a_recorded_scene_shows_the_load_of_the_last_hour() -> None:
    (scene, *_) = next(iter(DEMONSTRATIONS.values())).scenes
    world = RecordedScene(scene.name, scene.scenario, demo_policy()).world()
    cluster = world.cluster.read_cluster()
    last_hour = world.load.read_load(cluster, demo_policy()).last_hour
    assert last_hour.keys() == {node.name for node in cluster.nodes}
