"""How schedulers place pods: the default one, and those that the policy names."""

from collections.abc import Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from desched.model.cluster import DEFAULT_SCHEDULER, SpreadConstraint
from desched.policy.schedulers import (
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    ScoreWeights,
    ScoringStrategy,
    VolcanoWeights,
)
from desched.policy_file.document.scheduler import (
    DefaultConstraintSection,
    OtherSchedulerSection,
    SchedulerSection,
    ScoreWeightsSection,
)
from desched.policy_file.document.values import written
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.kube_scheduler_configuration import configured_schedulers

_KEYS_OF = {
    "strategy": SchedulerProfile.KUBE_SCHEDULER,
    "weights": SchedulerProfile.KUBE_SCHEDULER,
    "arguments": SchedulerProfile.VOLCANO,
    "further_points": SchedulerProfile.VOLCANO,
    "network_topology_aware": SchedulerProfile.VOLCANO,
    "config_map": SchedulerProfile.VOLCANO,
}


def scheduler_rules(section: SchedulerSection, notes: Notes) -> SchedulerRules:
    """The rules of all schedulers that are known."""
    found: dict[str, OtherScheduler] = {}
    if section.configuration is not None:
        found |= configured_schedulers(section.configuration, notes.below("configuration"))
    for name, other in (section.others or {}).items():
        at = notes.below("others", name)
        if name in found:
            at.refuse("is in the configuration, too; remove one of them.")
        found[name] = _other(name, other, at)
    default = found.pop(DEFAULT_SCHEDULER, None)
    if default is None:
        scores = _scores(section.strategy, section.weights)
        spread = _default_spread(section.default_constraints)
        return SchedulerRules(**scores, default_spread=spread, others=dict(sorted(found.items())))
    for key in ("strategy", "weights", "default_constraints"):
        if getattr(section, key) is not None:
            notes.refuse("is in the configuration, too; remove one of them.", to_camel(key))
    return SchedulerRules(
        default.strategy, default.weights, dict(sorted(found.items())), default.default_spread
    )


def _other(name: str, section: OtherSchedulerSection, notes: Notes) -> OtherScheduler:
    if name == DEFAULT_SCHEDULER:
        notes.refuse("is kube-scheduler itself; write its strategy and weights in scheduler.")
    for key, profile in _KEYS_OF.items():
        if getattr(section, key) is not None and section.profile is not profile:
            notes.refuse(f"has no effect here; it is for profile: {profile}.", to_camel(key))
    arguments = section.arguments or {}
    aware, points = bool(section.network_topology_aware), section.further_points
    if points is None:  # the configuration, where it is named, may have further plugins
        points = 100 * (aware and not section.config_map)
    return OtherScheduler(
        section.profile,
        **_scores(section.strategy, section.weights),
        volcano=VolcanoWeights.of(arguments),
        further_points=points,
        network_topology_aware=aware,
        config_map=section.config_map or "",
        written=arguments if section.config_map else {},
    )


def _default_spread(
    constraints: Sequence[DefaultConstraintSection] | None,
) -> tuple[SpreadConstraint, ...] | None:
    if constraints is None:
        return None
    return tuple(
        SpreadConstraint(c.topology_key, c.max_skew, c.when_unsatisfiable == "DoNotSchedule", None)
        for c in constraints
    )


def _scores(strategy: str | None, weights: ScoreWeightsSection | None) -> dict[str, Any]:
    return written(
        strategy=strategy and ScoringStrategy(strategy),
        weights=weights and ScoreWeights(**written(**dict(weights))),
    )
