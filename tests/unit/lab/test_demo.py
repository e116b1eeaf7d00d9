"""The demonstrations on clusters with GPUs, as a person reads them."""

import io

from msgspec.structs import replace
from rich.console import Console

from desched.lab.closed_loop import Descheduler
from desched.lab.demo import DEMONSTRATIONS, GPU_DRAINS_FILE, demo_policy, run_demo
from desched.lab.demo_picture import RecordedScene
from desched.lab.scenarios import gpus_scenario
from desched.plugins.gpus.plugin import Gpus
from tests.builders import house
from tests.shown import print_shown


def test_a_node_is_drained_for_the_pod_that_waits_for_its_gpus() -> None:
    written = io.StringIO()

    assert run_demo(Console(file=written, width=200), print_shown, scenario="gpus") == 0

    before, _, after = written.getvalue().partition("Cycle 1")
    assert "train/llama-1 waits for 8 GPUs of one node." in before
    assert "1 pod moved, train/llama-1 has 8 GPUs of g" in after


def test_without_drains_the_pod_keeps_waiting_and_nothing_moves() -> None:
    simulation = gpus_scenario()
    desched = Descheduler(replace(demo_policy(GPU_DRAINS_FILE), plugins=house(Gpus())), "test")
    assert not desched.cycle(simulation.world(acting=True)).plan.evictions
    (waiting,) = (pod for pod in simulation.cluster.read_cluster().pods if not pod.node)
    assert (waiting.namespace, waiting.unschedulable) == ("train", True)


def test_a_recorded_scene_shows_the_load_of_the_last_hour() -> None:
    (scene, *_) = next(iter(DEMONSTRATIONS.values())).scenes
    world = RecordedScene(scene.name, scene.scenario, demo_policy()).world()
    cluster = world.cluster.read_cluster()
    last_hour = world.load.read_load(cluster, demo_policy()).last_hour
    assert last_hour.keys() == {node.name for node in cluster.nodes}
