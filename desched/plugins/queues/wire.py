"""Queues of Kueue and Volcano; their schemas are those of whoever installed them."""

from msgspec import Raw

from desched.api_objects.metadata import Condition, Int32, Named, Wire


class Queue(Named):
    """A queue of any system."""

    spec: Raw = Raw()
    status: Raw = Raw()


class LocalQueueSpec(Wire):
    cluster_queue: str = ""


class KueueStatus(Wire):
    conditions: list[Condition] | None = None
    pending_workloads: Int32 | None = None


class VolcanoStatus(Wire):
    state: str = ""
