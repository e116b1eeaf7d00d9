"""How other schedulers take part in a decision."""

from collections.abc import Mapping
from typing import ClassVar

from desched.planning.plugins import OtherScores, Plugin
from desched.plugins.schedulers.scores import bounds_of_kai, bounds_of_volcano
from desched.policy.schedulers import SchedulerProfile


class Schedulers(Plugin, frozen=True):
    """Knows how Volcano and KAI score nodes."""

    scores: ClassVar[Mapping[SchedulerProfile, OtherScores]] = {
        SchedulerProfile.VOLCANO: OtherScores(bounds_of_volcano, samples=True),
        SchedulerProfile.KAI: OtherScores(bounds_of_kai, samples=False),
    }
    """Volcano samples as kube-scheduler does (scheduler_helper.go); KAI scores all nodes."""
