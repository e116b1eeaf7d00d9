"""Examinations of a small cluster in which all is well but for what a case changes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from desched.adapters.prometheus.stacks import FoundService
from desched.doctor.checks import Check
from desched.doctor.diagnosis import diagnose
from desched.doctor.examination import (
    Examination,
    FeatureRights,
    Origin,
    PolicyFacts,
    PrometheusFacts,
    RunFacts,
)
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, LoadHistory, Measured
from desched.model.measures import LabelGroup, MeasureFacts, MetricsFacts
from desched.model.resources import Resource
from desched.model.state import State
from desched.model.stored_state import StoredState
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import MetricsSource, Policy, SteeringRules
from tests.builders import NOW, load, node, pod, snapshot
from tests.builders import policy as any_policy

CPU, MEMORY = Resource.CPU, Resource.MEMORY
ADDRESS = "http://prometheus-server.monitoring.svc:80"
CHART = FoundService("prometheus chart", "monitoring", "prometheus-server", ADDRESS, 9090)
FEATURES = (
    *("plan", "watch", "sizing", "devices", "metrics_server", "custom_metrics"),
    *("lease", "state"),
    *("evict", "record", "steer", "events", "logbook", "own_events"),
)
NAMES = ("a", "b", "c")


def cluster(**fields: Any) -> ClusterState:
    nodes = fields.pop("nodes", [node(name) for name in NAMES])
    pods = fields.pop("pods", [pod(f"web-{name}", on=name) for name in NAMES])
    return snapshot(nodes, pods, ClusterLoad({}, {}), **fields).cluster


def loads(*ratios: float, **fields: Any) -> ClusterLoad:
    """Nodes `a`, `b`, … with this load of CPU, and 30 % of memory."""
    names = [chr(ord("a") + i) for i in range(len(ratios))]
    found = load({name: (ratio, 0.3) for name, ratio in zip(names, ratios, strict=True)})
    history = {r: LoadHistory(60, (0.5,) * 11) for r in (CPU, MEMORY)}
    fields = {"history": dict.fromkeys(names, history), **fields}
    return msgspec.structs.replace(found, **fields)


def measure(name: str, **fields: Any) -> MeasureFacts:
    kind, _, resource = name.partition("_")
    of_nodes = kind == "node"
    measured: Mapping[str, Measured] = {n: load({n: (0.5, 0.5)}).nodes[n][CPU] for n in NAMES}  # type: ignore[misc]
    defaults: dict[str, Any] = {
        "source": "node_exporter" if of_nodes else "cAdvisor",
        "series": 3,
        "labels": ("instance", "node"),
        "matched": {"the label node": 3},
        "measured": 3,
        "loads": measured if of_nodes else {},
        "oldest_age_seconds": 25.0 if of_nodes else None,
        "interval_seconds": 30.0,
        "lowest": 0.2 if of_nodes else 0.1,
        "highest": 0.8 if of_nodes else 1e9 if resource == "memory" else 1.5,
    }
    return MeasureFacts(
        name=name, resource=Resource(resource), of_nodes=of_nodes, **(defaults | fields)
    )


MEASURES = ("node_cpu", "node_memory", "pod_cpu", "pod_memory")


def metrics(*measures: MeasureFacts, **fields: Any) -> MetricsFacts:
    """All measures, these in place of the good ones."""
    others = {one.name: one for one in measures}
    every = tuple(others.get(name) or measure(name) for name in MEASURES)
    ours: dict[str, Any] = {
        "sampled": 3,
        "sightings": (LabelGroup({}, 3),),
        "jobs_of_strangers": (),
    }
    return MetricsFacts(every, **(ours | fields))


def policy(**fields: Any) -> Policy:
    defaults = {
        "metrics": MetricsSource(ADDRESS),
        "steering": SteeringRules(SteeringMode.WHEN_NEEDED),
    }
    return any_policy(**(defaults | fields))


def rights(lacking: str = "", **fields: Any) -> tuple[FeatureRights, ...]:
    """All rights, but for what the fields say of one feature."""
    return tuple(
        FeatureRights(
            feature, "", "deploy/base", "desched", **(fields if feature == lacking else {})
        )
        for feature in FEATURES
    )


def run_facts(**fields: Any) -> RunFacts:
    used: Any = dict.fromkeys(("in_cluster", "evicts", "loops", "elects", "watches"), True)
    facts = RunFacts(target="in-cluster", **used)
    return msgspec.structs.replace(facts, **fields)


def prometheus(**fields: Any) -> PrometheusFacts:
    defaults = {"address": ADDRESS, "origin": Origin.POLICY, "services": (CHART,)}
    return PrometheusFacts(**(defaults | fields))


def examination(**fields: Any) -> Examination:
    defaults: dict[str, Any] = {
        "at": NOW,
        "run": run_facts(),
        "server_version": "v1.36.3",
        "rights": rights(),
        "policy": PolicyFacts(policy(), "policy.yaml"),
        "cluster": cluster(),
        "prometheus": prometheus(),
        "metrics": metrics(),
        "load": loads(0.5, 0.5, 0.2),
        "state": StoredState(State()),
    }
    return Examination(**(defaults | fields))


class Case(NamedTuple):
    """What a check looks at."""

    name: str
    examined: Examination

    @property
    def check(self) -> Check:
        return check_of(self.examined, self.name)


def check_of(examined: Examination, name: str) -> Check:
    (found,) = (check for check in diagnose(examined).checks if check.name == name)
    return found
