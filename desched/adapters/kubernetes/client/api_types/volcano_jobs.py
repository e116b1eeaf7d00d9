"""Jobs of Volcano; the schema is that of whoever installed it."""

from msgspec import Raw

from desched.api_objects.metadata import Int32, Named, Wire


class VolcanoJob(Named):
    spec: Raw = Raw()
    status: Raw = Raw()


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
