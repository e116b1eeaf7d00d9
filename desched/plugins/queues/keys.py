"""The keys of the policy about queues."""

from enum import StrEnum

from desched.policy_keys.section import Section, optional


class QueueMode(StrEnum):
    """Whether a pod may move while others wait in its queue."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class QueueKeys(Section):
    """Whether queues count."""

    queues: QueueMode | None = optional(QueueMode.RESPECT.value, example="Ignore")
    """`Respect`: a pod whose replacement waits in a queue of Kueue or Volcano again stays while
    something else waits there, or while that is not known. It requires the rights to read queues;
    without them such pods move. `Ignore`: queues do not count."""
