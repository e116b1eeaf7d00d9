"""Turns the document into the policy that planning reads, and notes what is worth knowing of it."""

from typing import Any

from desched.model.selectors import LabelSelector
from desched.policy.compatibility import STRICT, Defaults, defaults_of
from desched.policy.document.load_aware import LoadAwareArgs
from desched.policy.document.root import DeschedulerPolicy
from desched.policy.document.scheduler import SchedulerSection
from desched.policy.durations import duration_text
from desched.policy.policy import (
    Policy,
    SchedulerRules,
    ScoreWeights,
    ScoringStrategy,
    Steering,
    SteeringRules,
)
from desched.policy.reading.problems import Notes
from desched.policy.reading.yaml_source import KeyPath
from desched.policy.resolution.limits import eviction_limits, follow_up_rules
from desched.policy.resolution.metrics_source import metrics_source
from desched.policy.resolution.plugins import ChosenProfile, choose_profiles
from desched.policy.resolution.pools import as_pools, node_pools
from desched.policy.resolution.protections import resolve_protections
from desched.policy.resolution.rules import LONGEST_WINDOW_SECONDS, resource_rules

LEAST_SUSTAINED_SECONDS = 10
"""History is looked at in ten steps of whole seconds."""

_INERT_ELSEWHERE = {
    "evictLocalStoragePods": "evict_local_storage_pods",
    "evictSystemCriticalPods": "evict_system_critical_pods",
    "ignorePvcPods": "ignore_pvc_pods",
    "labelSelector": "label_selector",
    "priorityThreshold": "priority_threshold",
}
"""Keys that Volcano's LoadAware accepts and never reads."""


def resolve(document: DeschedulerPolicy, source: str, digest: str, notes: Notes) -> Policy | None:
    """The policy that the document stands for.

    None, with the reasons in `notes.problems`, where it does not stand for one.
    """
    profiles = choose_profiles(document, notes)
    if not profiles:
        return None
    profile = profiles[0]
    args, path = profile.load_aware, profile.load_aware_path
    defaults = defaults_of(args.compatibility)
    policy = Policy(
        source=source,
        digest=digest,
        profile=profile.name,
        rules=resource_rules(args, path, notes),
        metrics=metrics_source(args.metrics, (*path, "metrics"), notes),
        limits=eviction_limits(document, args, path, notes),
        protections=resolve_protections(profile, notes),
        deviation=bool(args.use_deviation_thresholds),
        min_underloaded_nodes=args.number_of_nodes or 0,
        node_selector=_both(
            document.node_selector, args.node_selector if len(profiles) == 1 else None
        ),
        destination_selector=_both(profile.evictor.node_selector),
        sustained_seconds=_sustained_seconds(args, defaults, path, notes),
        deviation_floor_ratio=_deviation_floor(args, defaults, path, notes) / 100,
        pools=node_pools(args, path, notes) if len(profiles) == 1 else as_pools(profiles, notes),
        only_pools=len(profiles) > 1,
        dead_band_ratio=defaults.dead_band / 100,
        max_landing_risk=(
            defaults.max_landing_risk if args.max_landing_risk is None else args.max_landing_risk
        ),
        scheduler=_scheduler_rules(args.scheduler),
        maintenance_windows=tuple(s.window() for s in args.maintenance_windows or ()),
        blackout_windows=tuple(s.window() for s in args.blackout_windows or ()),
        follow_up=follow_up_rules(args.follow_up, (*path, "followUp"), notes),
        steering=SteeringRules(
            **_given(
                mode=args.steering and Steering(args.steering), most_nodes=args.steering_max_nodes
            )
        ),
    )
    _warn_of_other_meanings(profile, notes)
    return None if notes.problems else policy


def _given(**values: Any) -> dict[str, Any]:
    """The values that are written, so that defaults hold for the others."""
    return {name: value for name, value in values.items() if value is not None}


def _scheduler_rules(section: SchedulerSection | None) -> SchedulerRules:
    own = section or SchedulerSection()
    return SchedulerRules(
        **_given(
            strategy=own.strategy and ScoringStrategy(own.strategy),
            weights=own.weights and ScoreWeights(**_given(**dict(own.weights))),
        )
    )


def _sustained_seconds(args: LoadAwareArgs, defaults: Defaults, path: KeyPath, notes: Notes) -> int:
    if args.sustained_for is None:
        return defaults.sustained_seconds
    if args.sustained_for and not LEAST_SUSTAINED_SECONDS <= args.sustained_for <= (
        LONGEST_WINDOW_SECONDS
    ):
        notes.refuse(
            (*path, "sustainedFor"),
            f'found "{duration_text(args.sustained_for)}", allowed is "0s" for off, or from '
            f'"{duration_text(LEAST_SUSTAINED_SECONDS)}" to '
            f'"{duration_text(LONGEST_WINDOW_SECONDS)}".',
        )
    return args.sustained_for


def _deviation_floor(args: LoadAwareArgs, defaults: Defaults, path: KeyPath, notes: Notes) -> float:
    if args.deviation_floor is None:
        return defaults.deviation_floor
    if not args.use_deviation_thresholds:
        notes.warn(
            (*path, "deviationFloor"), "has no effect, because useDeviationThresholds is not set."
        )
    return args.deviation_floor


def _both(*selectors: LabelSelector | None) -> LabelSelector:
    return LabelSelector(tuple(r for s in selectors if s is not None for r in s.requirements))


def _warn_of_other_meanings(profile: ChosenProfile, notes: Notes) -> None:
    """Where the same file would act differently under another descheduler."""
    args, path = profile.load_aware, profile.load_aware_path
    if defaults_of(args.compatibility) is STRICT:
        notes.warn(
            (*path, "compatibility"),
            "is Strict: what is not written has no default that other deschedulers lack, so that "
            "more pods move, sooner, and less surely for the better; docs/policy-reference.md has "
            "the list.",
        )
    for key, name in _INERT_ELSEWHERE.items():
        if getattr(args, name) is not None:
            notes.warn(
                (*path, key), "has no effect in Volcano's LoadAware; here it does what it says."
            )
    if args.node_selector is not None and args.node_selector.requirements:
        notes.warn(
            (*path, "nodeSelector"),
            "limits only destinations in Volcano's LoadAware; here it selects the nodes that are "
            "looked at, as sources and destinations.",
        )
    for node_fit, at in ((args.node_fit, path), (profile.evictor.node_fit, profile.evictor_path)):
        if node_fit is False:
            notes.warn(
                (*at, "nodeFit"),
                "has no effect; whether a pod fits elsewhere is always checked.",
            )
