"""PodGroups of several systems, and Jobs of Volcano, as whoever installed them defines them."""

from msgspec import Raw

from desched.api_objects.metadata import Int32, LabelSelector, Named, Wire


class PodGroup(Named):
    """A PodGroup of any system."""

    spec: Raw = Raw()
    status: Raw = Raw()


class VolcanoSpec(Wire):
    min_member: Int32 | None = None
    queue: str = ""
    min_task_member: Raw = Raw()
    network_topology: Raw = Raw()
    sub_group_policy: Raw = Raw()


class SubGroupPolicy(Wire):
    name: str = ""
    sub_group_size: Int32 | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    network_topology: Raw = Raw()


class VolcanoTopology(Wire):
    mode: str = "hard"
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class Status(Wire):
    phase: str = ""


class CoschedulingSpec(Wire):
    min_member: Int32 | None = None


class KaiSpec(Wire):
    min_member: Int32 | None = None
    sub_groups: Raw = Raw()
    topology_constraint: Raw = Raw()


class KaiSubGroup(Wire):
    name: str
    min_member: Int32 | None = None
    parent: str | None = None
    topology_constraint: Raw = Raw()


class Gang(Wire):
    min_count: Int32 | None = None


class SchedulingPolicy(Wire):
    basic: Raw = Raw()
    gang: Gang | None = None


class KubernetesSpec(Wire):
    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: Raw = Raw()
    disruption_mode: Raw = Raw()


class VolcanoJob(PodGroup):
    """Its fields are read the same way."""


class LifecyclePolicy(Wire):
    """What the controller does on one or several events, or on an exit code."""

    action: str = ""
    event: str = ""
    events: list[str] | None = None
    exit_code: Int32 | None = None


class Task(Wire):
    name: str = ""
    replicas: Int32 | None = None
    min_available: Int32 | None = None
    policies: list[LifecyclePolicy] | None = None


class VolcanoJobSpec(Wire):
    min_available: Int32 | None = None
    max_retry: Int32 | None = None
    tasks: list[Task] | None = None
    policies: list[LifecyclePolicy] | None = None
    plugins: dict[str, Raw] | None = None


class JobState(Wire):
    phase: str = ""


class VolcanoJobStatus(Wire):
    state: JobState | None = None
