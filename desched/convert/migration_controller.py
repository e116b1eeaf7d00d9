"""Koordinator's MigrationController as limits and protections."""

import re

from desched.convert.draft import Draft, here
from desched.convert.evictor import convert_selectors, convert_switches, unknown_args
from desched.convert.original import OriginalSection
from desched.policy.durations import duration_text
from desched.policy.policy import EvictionLimits
from desched.policy.wording import quoted
from desched.policy_keys.values import LARGEST_COUNT

_PERCENTAGE = re.compile("([0-9]{1,3})%")
_ALL = 100
_MOST_IN_FLIGHT = 10_000
_HOUR_SECONDS = 3600
_CYCLE_SECONDS = 300
_LIMITER_SECONDS = 300
_DROPPED = {
    "maxConcurrentReconciles": "desched evicts one pod after the other.",
    "defaultJobTTL": "desched waits for a replacement for followUp.patience.",
    "arbitrationArgs": "desched chooses all evictions of a cycle together.",
    "defaultDeleteOptions": "desched always leaves a pod its own grace period.",
    "skipEvictionGates": "no gate can be skipped here.",
    "evictBurst": "desched evicts at an even pace.",
}


def convert_migration_controller(section: OriginalSection, draft: Draft) -> None:
    """The arguments of MigrationController; whoever reads `namespaces` reads it before."""
    for key, text in _DROPPED.items():
        section.dropped(key, text)
    section.value("namespaces")
    if section.flag("dryRun"):
        section.held("dryRun", "it was a dry run; start desched with --dry-run for one.")
    convert_switches(section, draft)
    convert_selectors(section, draft)
    _convert_limits(section, draft)
    _convert_limiters(section.section("objectLimiters"), draft)
    _convert_pace(section, draft)
    _convert_jobs(section)
    if section.flag("skipCheckExpectedReplicas"):
        text = "a workload's only replica stays here; evictSingleReplica: true lets it move."
        section.dropped("skipCheckExpectedReplicas", text)
    unknown_args(section)


def _convert_limits(section: OriginalSection, draft: Draft) -> None:
    for key, limit in {
        "maxMigratingPerNode": "node",
        "maxMigratingPerNamespace": "namespace",
    }.items():
        if number := section.count(key):  # 0 is no limit there
            draft.limit(limit, number)
            text = "at a time there, in one cycle here."
            section.changed(key, text, here("evictionLimits", limit))
    if number := section.count("maxMigratingGlobally"):
        draft.limit("inFlight", {"total": min(number, _MOST_IN_FLIGHT)})
    given: dict[str, int | str] = {
        key: share
        for key in ("maxMigratingPerWorkload", "maxUnavailablePerWorkload")
        if (share := _count_or_share(section, key)) is not None
    }
    if not given:
        return
    chosen = _smallest(list(given.values()))
    draft.limit("workload", chosen)
    text = "the evictions of a workload in one cycle here; PodDisruptionBudgets hold beside it."
    for key in given:
        section.changed(key, text, here("evictionLimits", "workload"))


def _count_or_share(section: OriginalSection, key: str) -> int | str | None:
    value = section.value(key)
    if value is None or value == 0:  # 0 is no limit there
        return None
    if type(value) is int and value > 0:
        return min(value, LARGEST_COUNT)
    share = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if share and 0 < int(share[1]) <= _ALL:
        return str(value)
    text = f'found {quoted(value)}, allowed is a whole number or a percentage such as "10%".'
    section.refuse(key, text)
    return None


def _smallest(limits: list[int | str]) -> int | str:
    """The smallest; 1 if a number and a percentage cannot be compared."""
    numbers = [limit for limit in limits if isinstance(limit, int)]
    shares = [limit for limit in limits if isinstance(limit, str)]
    if numbers and shares:
        return 1
    return min(numbers) if numbers else min(shares, key=lambda share: int(share.removesuffix("%")))


def _convert_limiters(section: OriginalSection, draft: Draft) -> None:
    """Limits over time, for a workload and for a namespace."""
    spans = {
        "workload": ("workloadHourly", _HOUR_SECONDS),
        "namespace": ("namespace", _CYCLE_SECONDS),
    }
    for key, (limit, span_seconds) in spans.items():
        limiter = section.section(key)
        if key not in section:
            continue
        seconds = limiter.seconds("duration")
        seconds = _LIMITER_SECONDS if seconds is None else seconds
        most = _count_or_share(limiter, "maxMigrating")
        limiter.dropped("burst", "desched evicts at an even pace.")
        if not seconds or most is None:
            continue
        at = here("evictionLimits", limit)
        if isinstance(most, str):
            draft.limit(limit, most)
            text = (
                f"{most} in {duration_text(seconds)} there, in {duration_text(span_seconds)} here."
            )
            if seconds > span_seconds:
                section.held(key, f"{text} It was slower there.")
            section.changed(key, text, at)
            continue
        allowed = most * span_seconds // seconds
        earlier = draft.load_aware.get("evictionLimits", {}).get(limit)
        draft.limit(limit, min(max(allowed, 1), earlier or max(allowed, 1)))
        text = f"{most} in {duration_text(seconds)} there, in {duration_text(span_seconds)} here."
        section.changed(key, text, at)
        if not allowed:
            section.held(
                key, f"fewer than one in {duration_text(span_seconds)} were allowed there."
            )


def _convert_pace(section: OriginalSection, draft: Draft) -> None:
    value = section.value("evictQPS")
    try:
        per_second = float(value) if value is not None else 0.0
    except (TypeError, ValueError):
        section.refuse("evictQPS", f"found {quoted(value)}, allowed is a number.")
        return
    default = EvictionLimits().per_minute or 1
    if 0 < per_second * 60 < default:
        draft.limit("perMinute", max(1, int(per_second * 60)))
        text = "evictions by second there, by minute here."
        section.changed("evictQPS", text, here("evictionLimits", "perMinute"))
    else:
        section.dropped("evictQPS", f"desched evicts at most {default} pods a minute.")


def _convert_jobs(section: OriginalSection) -> None:
    policy = section.text("evictionPolicy")
    if policy not in {None, "Eviction"}:
        section.dropped("evictionPolicy", "desched always uses the Eviction API.")
    mode = section.text("defaultJobMode")
    schedulers = section.texts("schedulerNames")
    if mode == "EvictDirectly":
        section.dropped("schedulerNames", "had no effect with EvictDirectly.")
        return
    section.dropped(
        "defaultJobMode",
        "desched reserves nothing; it forecasts where the replacement lands, and moves a pod only "
        "if that is good.",
    )
    if schedulers:
        section.held(
            "schedulerNames",
            "only pods of these schedulers were moved there; a policy here cannot tell them apart.",
        )
