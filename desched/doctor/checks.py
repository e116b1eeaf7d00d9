"""A check: one question, its verdict, what was found and what to do about it."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """The result of a check; only the first two and SKIPPED leave it safe to start."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class CheckName(StrEnum):
    """The checks of desched itself, the most important first."""

    API_SERVER = "api_server"
    POLICY = "policy"
    RIGHTS_PLAN = "rights_plan"
    RIGHTS_WATCH = "rights_watch"
    RIGHTS_SIZING = "rights_sizing"
    RIGHTS_DEVICES = "rights_devices"
    RIGHTS_METRICS_SERVER = "rights_metrics_server"
    RIGHTS_CUSTOM_METRICS = "rights_custom_metrics"
    RIGHTS_LEASE = "rights_lease"
    RIGHTS_STATE = "rights_state"
    RIGHTS_EVICT = "rights_evict"
    RIGHTS_RECORD = "rights_record"
    RIGHTS_STEER = "rights_steer"
    RIGHTS_EVENTS = "rights_events"
    RIGHTS_LOGBOOK = "rights_logbook"
    RIGHTS_OWN_EVENTS = "rights_own_events"
    POD_GROUPS = "pod_groups"
    NETWORKS = "networks"
    MODEL_CACHES = "model_caches"
    QUEUES = "queues"
    CLUSTER = "cluster"
    PROMETHEUS = "prometheus"
    MATCHERS = "matchers"
    HONORED_LABELS = "honored_labels"
    NODE_CPU = "node_cpu"
    NODE_MEMORY = "node_memory"
    POD_CPU = "pod_cpu"
    POD_MEMORY = "pod_memory"
    WINDOWS = "windows"
    HISTORY = "history"
    NODES = "nodes"
    CLOCKS = "clocks"
    THRESHOLDS = "thresholds"
    STATE = "state"
    SOFT_TAINTS = "soft_taints"
    BUDGETS = "budgets"
    LOCAL_STORAGE = "local_storage"
    OTHER_DESCHEDULERS = "other_deschedulers"
    AUTOSCALERS = "autoscalers"
    HELD_NODES = "held_nodes"
    SCHEDULER = "scheduler"


class Check(msgspec.Struct, frozen=True):
    """The answer to one question.

    `found` and `fix` are a sentence each; `fix` names a command or a key, and is empty if there is
    nothing to do. With `invalid_configuration` a person must change the settings or the policy.
    """

    name: str
    verdict: Verdict
    found: str
    fix: str = ""
    details: tuple[str, ...] = ()
    invalid_configuration: bool = False


class Diagnosis(msgspec.Struct, frozen=True):
    """The checks of desched itself, the most important first."""

    checks: tuple[Check, ...]

    @property
    def is_safe(self) -> bool:
        """Whether it is safe to start."""
        return not any(c.verdict in {Verdict.PROBLEM, Verdict.UNKNOWN} for c in self.checks)

    @property
    def is_invalid(self) -> bool:
        """Whether the settings or the policy are invalid."""
        return any(check.invalid_configuration for check in self.checks)


def ok(name: str, text: str, hint: str = "", details: Sequence[str] = ()) -> Check:
    """All is well."""
    return Check(name, Verdict.OK, text, hint, tuple(details))


def warning(name: str, text: str, fix: str, details: Sequence[str] = ()) -> Check:
    """It is safe to start, but something should change."""
    return Check(name, Verdict.WARNING, text, fix, tuple(details))


def problem(name: str, text: str, fix: str, details: Sequence[str] = ()) -> Check:
    """It is not safe to start, or useless."""
    return Check(name, Verdict.PROBLEM, text, fix, tuple(details))


def unknown(name: str, text: str, fix: str, details: Sequence[str] = ()) -> Check:
    """It could not be found out."""
    return Check(name, Verdict.UNKNOWN, text, fix, tuple(details))


def skipped(name: str, reason: str, hint: str = "") -> Check:
    """It was not asked, because of another check or because it does not matter here."""
    return Check(name, Verdict.SKIPPED, reason, hint)
