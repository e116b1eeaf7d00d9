"""What the landing of one pod's replacement has to be like."""

from collections.abc import Mapping

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.planning.arrays import Mask
from desched.planning.placement.free_capacity import Fit, FreeCapacity
from desched.planning.placement.landing_forecast import Landing


class LandingLimits(msgspec.Struct, frozen=True):
    """Tells whether a landing of the pod is bearable, and where its replacement is expected.

    `charge` is what it will use. `bad` are nodes as `Landing.risk` takes them, and `most_risk` is
    the highest bearable probability of a landing there. `crowded` are nodes that no further
    replacement may be on its way to.
    """

    pod: Pod
    charge: Mapping[Resource, float]
    free: FreeCapacity
    fit: Fit
    bad: Mask
    crowded: Mask
    most_risk: float

    def bears(self, risk: float, landing: Landing) -> bool:
        """Whether a landing of this risk is harmless enough.

        Another scheduler's choice is not known; such a pod is not refused for it, but every node
        where it may land keeps its share of room.
        """
        return landing.any_fit or risk <= self.most_risk

    def is_harmless(self, landing: Landing) -> bool:
        """Whether the pod is not too likely to land where that does not help."""
        return self.bears(landing.risk(self.bad), landing)

    def is_bearable(self, landing: Landing) -> bool:
        """Whether it is harmless, and expected on a node that may await one more."""
        return self.is_harmless(landing) and not self.crowded[self.expected(landing)]

    def expected(self, landing: Landing) -> int:
        """The likeliest node under its ceiling; among equals the one with most to spare."""
        under_ceiling = self.fit.under_ceiling
        probabilities = landing.probabilities * under_ceiling
        equal = (under_ceiling & (probabilities >= probabilities.max() - 1e-9)).nonzero()[0]
        if len(equal) == 1:
            return int(equal[0])
        share = self.free.requested_share(self.pod.scheduling.requests, equal)
        return int(equal[np.argmin(share)])
