"""Soft taints also keep a replacement off a node where it may well meet others."""

import numpy as np

from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.landing_forecast import forecast
from desched.planning.placement.steering import Steerable, relied_on, steer
from desched.policy.schedulers import SchedulerRules
from tests.builders import free_capacity
from tests.unit.planning.landing_cluster import chances, cluster, node, pod

MOST_RISK = 0.15


def test_the_node_of_the_likeliest_encounter_is_tainted_and_named() -> None:
    loaded = cluster([node("a"), node("b"), node("c")], [pod("web-1", "a")])
    view = SchedulerView(loaded, SchedulerRules())
    landing = forecast(loaded.pods[0], free_capacity(loaded), view)
    assert chances(landing) == {"b": 0.5, "c": 0.5}
    bad = np.zeros((10, 3), dtype=bool)
    bad[:5, 1] = True  # in every other alternative others have filled b

    def is_acceptable(found):
        return found.risk(bad) <= MOST_RISK

    every = np.ones(3, dtype=bool)
    steered = steer(landing, view, bad, Steerable(~every, every, 3), is_acceptable)

    assert steered is not None
    assert steered.steered.tolist() == [False, True, False]
    seen = landing.seen_by(steered)
    assert chances(seen) == {"c": 1.0}
    assert relied_on(seen, steered, bad, is_acceptable) == ("b",)
