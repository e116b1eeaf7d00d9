"""Turns the document into the policy that planning reads, and notes what is worth knowing of it."""

from pydantic.alias_generators import to_camel

from desched.plugins import HOUSE
from desched.policy.compatibility import Compatibility, GangMode, Queues, VolcanoJobs
from desched.policy.durations import duration_text
from desched.policy.eviction_price import MOST_PRICE_MINUTES
from desched.policy.placement_domains import NO_TIER, names_no_tier, tier_of
from desched.policy.policy import Policy, SteeringRules
from desched.policy.share import Share
from desched.policy.wording import did_you_mean, quoted
from desched.policy_file.document.load_aware import LoadAwareArgs
from desched.policy_file.document.placement_domains import (
    PlacementDomainsSection,
    named_labels,
    placement_domains,
)
from desched.policy_file.document.root import DeschedulerPolicy
from desched.policy_file.document.scheduler import SchedulerSection
from desched.policy_file.document.values import all_of, written
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.gpu_drains import gpu_drain_rules
from desched.policy_file.resolution.limits import eviction_limits, follow_up_rules
from desched.policy_file.resolution.metrics_source import check_kept_windows, metrics_source
from desched.policy_file.resolution.plugins import (
    ChosenProfile,
    choose_gpu_fragmentation,
    choose_profiles,
)
from desched.policy_file.resolution.pools import as_pools, node_pools
from desched.policy_file.resolution.protections import resolve_protections
from desched.policy_file.resolution.rules import resource_rules
from desched.policy_file.resolution.schedulers import scheduler_rules

_LASTING = (
    "desched forecasts how long an overload lasts, and evictionPrice says how many minutes of it a "
    "move must save."
)
_FORMER = {
    "sustainedFor": _LASTING,
    "sustainedForAtLeast": _LASTING,
    "chainedMoves": "each move relieves its own node.",
}
"""What replaces the keys of earlier versions."""

_INERT_ELSEWHERE = {
    "evict_local_storage_pods",
    "evict_system_critical_pods",
    "ignore_pvc_pods",
    "label_selector",
    "priority_threshold",
}
"""Keys that Volcano's LoadAware accepts and never reads."""


def resolve(document: DeschedulerPolicy, source: str, digest: str, notes: Notes) -> Policy | None:
    """The policy that the document defines.

    None, with the reasons in `notes`, if it defines none.
    """
    profiles = choose_profiles(document, notes)
    gpu_fragmentation = choose_gpu_fragmentation(document, notes)
    if not profiles:
        return None
    profile, alone = profiles[0], len(profiles) == 1
    args, at, defaults = profile.load_aware, profile.notes, profile.defaults
    policy = Policy(
        source=source,
        digest=digest,
        rules=resource_rules(args, at),
        metrics=metrics_source(args.metrics, at.below("metrics")),
        limits=eviction_limits(document, profile, notes),
        protections=resolve_protections(profile),
        deviation=bool(args.use_deviation_thresholds),
        min_underloaded_nodes=args.number_of_nodes or 0,
        node_selector=all_of(document.node_selector, args.node_selector if alone else None),
        destination_selector=all_of(profile.evictor.node_selector),
        eviction_price_minutes=defaults.eviction_price_minutes,
        deviation_floor_ratio=defaults.deviation_floor / 100,
        pools=node_pools(args, at) if alone else as_pools(profiles),
        only_pools=not alone,
        dead_band_ratio=defaults.dead_band / 100,
        max_landing_risk=defaults.max_landing_risk,
        scheduler=scheduler_rules(args.scheduler or SchedulerSection(), at.below("scheduler")),
        maintenance_windows=tuple(s.window() for s in args.maintenance_windows or ()),
        blackout_windows=tuple(s.window() for s in args.blackout_windows or ()),
        follow_up=follow_up_rules(args.follow_up, at.below("followUp")),
        steering=SteeringRules(defaults.steering, **written(most_nodes=args.steering_max_nodes)),
        domains=placement_domains(
            args.placement_domains or PlacementDomainsSection(), defaults.domains
        ),
        cache_affinity=defaults.cache_affinity,
        gang_mode=args.gang_mode or GangMode.SURPLUS,
        volcano_jobs=args.volcano_jobs or VolcanoJobs.STAY,
        queues=args.queues or Queues.RESPECT,
        relieves_staying_excess=defaults.relieve_staying_excess,
        balance_scope=args.balance_scope or "",
        gpu_drains=gpu_drain_rules(gpu_fragmentation, profile),
        plugins=HOUSE,
        acknowledged_deschedulers=tuple(sorted(set(args.acknowledged_deschedulers or ()))),
    )
    _check_price(policy, at)
    check_kept_windows(policy, at)
    _warn_of_other_meanings(profile)
    _check_tiers_and_labels(args, at)
    _warn_of_gangs_that_stay(policy, at)
    return None if notes.refused else policy


def _check_price(policy: Policy, notes: Notes) -> None:
    if policy.eviction_price_minutes > MOST_PRICE_MINUTES:
        notes.refuse(
            f'found "{duration_text(round(60 * policy.eviction_price_minutes))}", allowed is at '
            f'most "{MOST_PRICE_MINUTES}m": more overload is hardly ever expected of an hour.',
            "evictionPrice",
        )


def _check_tiers_and_labels(args: LoadAwareArgs, notes: Notes) -> None:
    """Note the keys of `modes` and `balanceScope` that stand for no tier and no label."""
    section = args.placement_domains or PlacementDomainsSection()
    labels, at = named_labels(section), notes.below("placementDomains", "modes")
    for key in section.modes or {}:
        if names_no_tier(key):
            at.refuse(NO_TIER, key)
        elif tier_of(key) is None and key not in labels:
            hint = did_you_mean(key, labels) or "."
            at.warn(
                "is a label of no level and no group, so that it counts only in Topologies of "
                f"Kueue and KAI{hint}",
                key,
            )
    if names_no_tier(args.balance_scope or ""):
        notes.refuse(f"found {quoted(args.balance_scope)}, which {NO_TIER}", "balanceScope")


def _warn_of_gangs_that_stay(policy: Policy, notes: Notes) -> None:
    if policy.gang_mode is not GangMode.WHOLE:
        return
    if policy.protections.gpu_pods:
        notes.warn(
            "is Whole, but gpuPods: Protect keeps each gang with GPUs; set gpuPods: Allow, or "
            'annotate their pods with desched.io/evict: "true".',
            "gangMode",
        )
    hourly = policy.limits.workload_hourly
    if isinstance(hourly, Share) and hourly.ratio < 1:
        notes.warn(
            f"is Whole, but evictionLimits.workloadHourly lets {hourly.ratio:.0%} of a workload's "
            "replicas move within an hour, so that a gang stays that is more of its workload; "
            '"100%" lets it move.',
            "gangMode",
        )


def _warn_of_former_keys(args: LoadAwareArgs, notes: Notes) -> None:
    """Name the keys of earlier versions that have no effect any more."""
    former = written(
        sustainedFor=args.sustained_for,
        sustainedForAtLeast=args.sustained_for_at_least,
        chainedMoves=args.chained_moves,
    )
    for name in former:
        notes.warn(f"has no effect any more; {_FORMER[name]}", name)


def _warn_of_other_meanings(profile: ChosenProfile) -> None:
    """Where the same file would act differently under another descheduler, or not at all."""
    args, notes = profile.load_aware, profile.notes
    if args.compatibility is Compatibility.STRICT:
        notes.warn(
            "is Strict: what is not written has no default that other deschedulers lack, so that "
            "more pods move, sooner, and less surely for the better; docs/policy-reference.md has "
            "the list.",
            "compatibility",
        )
    _warn_of_former_keys(args, notes)
    if args.deviation_floor is not None and not args.use_deviation_thresholds:
        notes.warn("has no effect, because useDeviationThresholds is not set.", "deviationFloor")
    for name in written(**dict(args)).keys() & _INERT_ELSEWHERE:
        notes.warn("has no effect in Volcano's LoadAware; here it has one.", to_camel(name))
    if args.node_selector is not None and args.node_selector.requirements:
        here = "here it selects the nodes that are looked at, as sources and destinations."
        notes.warn(f"limits only destinations in Volcano's LoadAware; {here}", "nodeSelector")
    for plugin, at in profile.plugins:
        if plugin.node_fit is False:
            at.warn("has no effect; whether a pod fits elsewhere is always checked.", "nodeFit")
