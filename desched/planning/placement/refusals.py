"""The words for a pod that has no destination."""

import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.arrays import Mask
from desched.planning.placement.fit import Fit
from desched.planning.placement.landing_forecast import Landing
from desched.planning.placement.placement_limits import PlacementLimits
from desched.planning.placement.steering import Steerable

_UNNAMED = "scheduler.others in the policy can name its profile"


def unfit(pod: Pod, fit: Fit, limits: PlacementLimits) -> Finding[RefusalReason]:
    """Why no node can take the pod."""
    if not fit.requests.any():
        return Finding(RefusalReason.NO_NODE_FITS, fit.explanation)
    last = next((limit for limit, left in fit.limited if not left.any()), None)
    if last is not None and (reason := last.reason_for(pod)) is not None:
        return Finding(reason, f"{last.describe(pod)}: {fit.explanation}")
    summary = ": ".join((*limits.named(fit.requests, pod), fit.explanation))
    return Finding(RefusalReason.NO_NODE_UNDER_CEILING, summary)


def choice_of_others(
    pod: Pod, landing: Landing, fit: Fit, limits: PlacementLimits
) -> Finding[RefusalReason] | None:
    """Why a pod of another scheduler, whose choice is not known, stays."""
    if not landing.any_fit:
        return None
    remedy = landing.unclear or _UNNAMED
    if not (landing.destinations & fit.under_ceiling).any():
        why = f"until it leaves, {pod.scheduler} can place it on no node under its ceiling"
        return Finding(RefusalReason.NO_NODE_UNDER_CEILING, why)
    for limit in limits.each:
        reason = limit.reason_for(pod)
        if reason is not None and (landing.destinations & limit.outside(pod)).any():
            why = f"{limit.describe(pod)}: {pod.scheduler} may place it elsewhere; {remedy}"
            return Finding(reason, why)
    return None


def too_risky(
    landing: Landing, bad: Mask, limits: PlacementLimits, within: Steerable
) -> Finding[RefusalReason]:
    """Why the risk of the landing is too high."""
    pod, source = landing.departure.pod, landing.departure.source
    alone, encounter = landing.risk_alone(bad), landing.risk_of_encounter(bad)
    if landing.departure.away:
        risk = f"{alone:.0%} likely to land where it would do harm"
    else:
        back = float(landing.probabilities[source])
        risk = (
            f"{back:.0%} likely to come back to {pod.node} and {max(0.0, alone - back):.0%} to "
            "land where it would do harm"
        )
    if encounter > alone:
        risk += f", {encounter:.0%} to land with earlier moves on a node without room for all"
    if landing.any_fit:
        risk += f"; {pod.scheduler} may choose any node where it fits"
        if landing.unclear:
            risk += f" ({landing.unclear})"
    elif landing.scheduler is not None and not landing.scheduler.honours_soft_taints:
        risk += f"; {pod.scheduler} ignores soft taints"
    elif within.is_on:
        risk += f"; soft taints on at most {within.most} nodes cannot prevent this"
    else:
        risk += "; soft taints on those nodes could prevent this"
    possible: Mask = np.asarray(landing.probabilities > 0)
    summary = ": ".join((*limits.named(possible, pod), risk))
    return Finding(RefusalReason.LANDING_RISK, summary)
