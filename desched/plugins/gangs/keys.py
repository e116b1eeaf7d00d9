"""The keys of the policy about gangs."""

from enum import StrEnum

from desched.policy_keys.section import Section, optional


class GangMode(StrEnum):
    """Which pods of a gang may move."""

    SURPLUS = "Surplus"
    WHOLE = "Whole"


class VolcanoJobs(StrEnum):
    """Whether pods of Volcano Jobs may move."""

    STAY = "Stay"
    SURPLUS = "Surplus"


class GangKeys(Section):
    """Which pods of gangs may move."""

    gang_mode: GangMode | None = optional(GangMode.SURPLUS.value, example="Whole")
    """`Surplus`: of a gang only the pods move that it does not need. `Whole`: if nothing else
    relieves a node, a gang may also move with all its pods at once, and then loses its work since
    the last checkpoint. `evictionLimits` must have room for all of them, `workloadHourly` included;
    only `workload`, `inFlight.workload` and the number of replicas that must stay do not hold
    it."""
    volcano_jobs: VolcanoJobs | None = optional(VolcanoJobs.STAY.value, example="Surplus")
    """`Surplus`: pods of Volcano Jobs move that neither `minAvailable` of the job nor that of their
    task needs, if no policy of the job acts on an eviction. It requires the rights to read Volcano
    Jobs and PodGroups. `Stay`: they never move."""
