"""What the time that choosing takes is measured by."""

from random import Random

import pytest
from msgspec.structs import replace

from desched.model.memory import Memory
from desched.planning.eligibility.context import surroundings
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Place, Places
from desched.planning.placement.reservations import room_left
from desched.planning.taints import steerable
from desched.policy.policy import Steering, SteeringRules
from tests.properties.test_joint_landings_beside_taints import POLICY, trap


@pytest.mark.parametrize(("mode", "counts_more"), [(Steering.OFF, False), (Steering.ALWAYS, True)])
def test_moves_that_are_forecast_again_count(mode: Steering, *, counts_more: bool) -> None:
    seen = trap(Random(117))  # noqa: S311 (no secret)
    rules = replace(POLICY, steering=SteeringRules(mode, 8))
    book, memory = UsageBook(seen, rules, seen.taken_at), Memory()
    around = surroundings(seen, rules, memory, seen.taken_at, book)
    pressure = classify(seen, rules, memory, book)
    room = room_left(around.cluster, rules, memory, pressure, book)
    within = steerable(room.columns, around, pressure, ())
    places = Places(room, SchedulerView(seen.cluster, rules.scheduler), 0.15, within)

    asked = 0
    for pod in (p for p in seen.cluster.pods if p.owner):
        charge = {rule.resource: book.demand(pod, rule.resource) for rule in rules.rules}
        place = places.find(pod, charge)
        asked += 1
        if isinstance(place, Place):
            places.take(place, pod, charge)
            asked += 1

    assert (places.steps > asked) is counts_more
    assert places.steps >= asked
