"""All that decides on the destination of one pod, for an explanation."""

from collections.abc import Mapping

import msgspec

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Ints, Mask
from desched.planning.kube_scheduler.scores.total import plugin_scores
from desched.planning.placement.destination import Destination
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.fit import Fit
from desched.planning.placement.landing_forecast import Landing, forecast
from desched.planning.placement.landing_limits import Bearable
from desched.policy.schedulers import SchedulerProfile


class PlacesExamined(msgspec.Struct, frozen=True):
    """All that decides on a pod's destination after the moves so far.

    `excluded` counts the nodes that cannot take it by reason. `loads` are those of each node with
    the pod, `over_ceiling` how far they are above the ceiling. `landing` is the forecast without
    further soft taints. `scores` are weighted, by plugin, with the taints that `found` needs. `bad`
    has the bad nodes, see `Landing.risk`; a risk up to `most_risk` is accepted. `found` is the
    answer of `Destinations.destination_of`.
    """

    fit: Fit
    excluded: Mapping[str, int]
    loads: Mapping[Resource, Floats]
    over_ceiling: Mapping[Resource, Floats]
    landing: Landing
    scores: Mapping[str, Ints]
    bad: Mask
    most_risk: float
    found: Destination | Finding[RefusalReason]


def examine(
    pod: Pod,
    charge: Mapping[Resource, float],
    destinations: Destinations,
    at_most: Mapping[Resource, float],
) -> PlacesExamined:
    """Examine the pod's destination, whether or not it has one.

    Nodes may be filled up to `at_most` where that is above their ceiling.
    """
    answer, free = destinations.destination_and_room(pod, charge, Bearable(at_most))
    fit, loads = free.fit(pod, pod.node, charge, at_most), free.load.with_pod(charge)
    landing = forecast(pod, free, destinations.view)
    scores: Mapping[str, Ints] = {}
    scheduler = landing.scheduler
    same = scheduler is None or scheduler.profile is SchedulerProfile.KUBE_SCHEDULER
    if landing.destinations.any() and not landing.any_fit and same:
        view = answer.view if isinstance(answer, Destination) else destinations.view
        scores = plugin_scores(landing.departure, view, landing.destinations, scheduler)
    return PlacesExamined(
        fit,
        free.exclusions(pod, pod.node, fit),
        loads,
        free.load.over_ceiling(loads, at_most),
        landing,
        scores,
        destinations.harmed(loads, at_most),
        destinations.most_risk,
        answer,
    )
