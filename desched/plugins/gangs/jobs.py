"""Jobs of Volcano: which of their pods the controller just creates again after an eviction.

Tenants write them. One that cannot be read keeps the pods of its own job, and nothing else.

Sources: volcano.sh/apis batch/v1alpha1; volcano pkg/controllers/job/job_controller_util.go
(`applyPolicies`), job_controller_handler.go (`updatePod`, `deletePod`), state/restarting.go;
pkg/webhooks/admission/jobs/mutate/mutate_job.go; pkg/scheduler/api/job_info.go (`CheckTaskValid`).
"""

from collections.abc import Iterable, Iterator, Sequence

from desched.api_objects.access import list_and_watch
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.pod_groups import TASK
from desched.model.text import shortened
from desched.planning.eligibility.controllers import VOLCANO_JOB
from desched.plugins.gangs.pod_groups import (
    LARGEST_PARTS_BYTES,
    group_kind,
    labelled_part,
)
from desched.plugins.gangs.wire import (
    JobState,
    LifecyclePolicy,
    Task,
    VolcanoJob,
    VolcanoJobSpec,
    VolcanoJobStatus,
)

VOLCANO_JOB_ACCESS = list_and_watch(
    "batch.volcano.sh jobs",
    "which pods of a Volcano Job can move (`volcanoJobs: Surplus`)",
    "all pods of Volcano Jobs stay",
    "v1alpha1",
)

_SPEC = RawDecoder(VolcanoJobSpec)
_STATUS = RawDecoder(VolcanoJobStatus)

_HARMLESS_ACTION = "SyncJob"
"""It creates the evicted pod again, and is what happens without a policy."""

_NEVER_RAISED = frozenset({"PodRunning", "OutOfSync", "CommandIssued", "JobUpdated"})
"""Events that no eviction raises, or for which the controller reads no policy."""

_COMPLETED = "TaskCompleted"
"""Raised once all pods of a task have succeeded, as an evicted one may if it ends in order."""

_COUNTED = frozenset({"RestartJob", "RestartTask", "RestartPod", "RestartPartition"})
"""Actions that count for `maxRetry`, after which the job has failed."""
_DEFAULT_RETRIES = 3

_JOINING_PLUGINS = frozenset({"mpi"})
"""With these all pods are one run, which ends with each of them, whatever `minAvailable` is."""


def _declared(item: VolcanoJob) -> DeclaredGroup:
    """What an eviction of one of its pods would do."""
    minimum, stays, parts = 0, "", tuple[GroupPart, ...]()
    try:
        spec = _SPEC(item.spec) or VolcanoJobSpec()
        phase = ((_STATUS(item.status) or VolcanoJobStatus()).state or JobState()).phase
        minimum, parts = _minimum(spec), tuple(_parts(spec))
        stays = next(_whole(spec, parts), "") or _not_running(phase)
        if len({part.name for part in parts}) < len(parts):
            stays = stays or "several of its tasks have one name"
        if sum(len(part.name) for part in parts) > LARGEST_PARTS_BYTES:
            stays, parts = "its tasks have too long names", ()
    except (*UNDECODABLE, ValueError) as error:
        stays = f"its Job cannot be read: {error}"
    namespace, name = item.metadata.namespace, item.metadata.name
    return DeclaredGroup(VOLCANO_JOB, namespace, name, minimum, shortened(stays), parts)


def _whole(spec: VolcanoJobSpec, parts: Sequence[GroupPart]) -> Iterator[str]:
    """Why one eviction concerns the whole job."""
    for plugin in sorted(_JOINING_PLUGINS.intersection(spec.plugins or ())):
        yield f"its plugin {plugin} joins all its pods in one run"
    may_complete = any(part.minimum == 0 for part in parts)
    of_tasks = (policy for task in spec.tasks or () for policy in task.policies or ())
    for policy in (*of_tasks, *(spec.policies or ())):
        if policy.action == _HARMLESS_ACTION:
            continue
        for event in _raised(policy, may_complete=may_complete):
            text = f"{policy.action} on {event}, which an eviction may raise"
            if policy.action in _COUNTED:
                retries = spec.max_retry or _DEFAULT_RETRIES
                ends = (
                    "the first such eviction ends"
                    if retries == 1
                    else (f"{retries} such evictions end")
                )
                text += f"; {ends} the job"
            yield text


def _raised(policy: LifecyclePolicy, *, may_complete: bool) -> Iterator[str]:
    """The events of the policy that an eviction may raise; unknown ones are among them."""
    for event in dict.fromkeys((policy.event, *(policy.events or ()))):
        harmless = event in _NEVER_RAISED or (event == _COMPLETED and not may_complete)
        if event and not harmless:
            yield event
    if policy.exit_code is not None:
        yield f"exit code {policy.exit_code}"


def _minimum(spec: VolcanoJobSpec) -> int:
    """How many pods the job needs: unless it says so, what its tasks need."""
    if spec.min_available:
        return max(spec.min_available, 0)
    return sum(map(_needed, spec.tasks or ()))


def _needed(task: Task) -> int:
    minimum = _replicas(task) if task.min_available is None else task.min_available
    return max(minimum, 0)


def _replicas(task: Task) -> int:
    return 1 if task.replicas is None else task.replicas


def _parts(spec: VolcanoJobSpec) -> Iterable[GroupPart]:
    """What each task needs.

    The webhook writes all replicas where a task says nothing. Volcano counts the tasks only if they
    need no more than the job; else a task that needs all its pods may not have said so. It keeps
    one here, so that the only pod of a task never moves.
    """
    tasks = spec.tasks or ()
    counted = _minimum(spec) >= sum(map(_needed, tasks))
    for position, task in enumerate(tasks):
        needed = _needed(task)
        if not counted and needed >= _replicas(task):
            needed = min(needed, 1)
        yield labelled_part(TASK, task.name or f"default{position}", needed)


def _not_running(phase: str) -> str:
    return "" if phase == "Running" else f"its phase is {phase or 'not known'}"


VOLCANO_JOBS = group_kind(VOLCANO_JOB_ACCESS[0], VolcanoJob, _declared)
