"""What the time that choosing takes is measured by."""

from random import Random

import pytest
from msgspec.structs import replace

from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Destination, Destinations
from desched.planning.placement.reservations import room_left
from desched.planning.taints import steerable
from desched.policy.policy import Steering, SteeringRules
from tests.properties.test_joint_landings_beside_taints import POLICY, trap


@pytest.mark.parametrize(("mode", "counts_more"), [(Steering.OFF, False), (Steering.ALWAYS, True)])
def test_moves_that_are_forecast_again_count(mode: Steering, *, counts_more: bool) -> None:
    seen = trap(Random(117))  # noqa: S311 (no secret)
    rules = replace(POLICY, steering=SteeringRules(mode, 8))
    book, state = UsageBook(seen, rules, seen.taken_at), State()
    context = EligibilityContext.of(seen, rules, state, seen.taken_at, book)
    pressure = classify(seen, rules, state, book)
    free = room_left(context.cluster, rules, state, pressure, book)
    within = steerable(free.arrays, context, pressure, ())
    destinations = Destinations(free, SchedulerView(seen.cluster, rules.scheduler), 0.15, within)

    asked = 0
    for pod in (p for p in seen.cluster.pods if p.owner):
        charge = {rule.resource: book.demand(pod, rule.resource) for rule in rules.rules}
        destination = destinations.find(pod, charge)
        asked += 1
        if isinstance(destination, Destination):
            destinations.take(destination, pod, charge)
            asked += 1

    assert (destinations.steps > asked) is counts_more
    assert destinations.steps >= asked
