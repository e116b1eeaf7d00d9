"""Do the windows fit the scrape interval, and does the history reach far enough back?"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from desched.doctor.checks import Check, CheckName, Verdict, ok, problem, skipped, warning
from desched.doctor.examination import Examination
from desched.model.measures import MeasureFacts, MetricsFacts
from desched.model.snapshot import Snapshot
from desched.planning.overload.scope import out_of_scope
from desched.policy.durations import duration_text
from desched.policy.policy import Policy
from desched.policy.windows_of_samples import first_decision_seconds
from desched.wording.formatting import count, first_names

SAMPLES_PER_WINDOW = 4
"""A mean over fewer samples is left to chance."""

LEAST_SAMPLES = 2
"""A rate over fewer samples has no value."""

FINEST_INTERVAL_SECONDS = 15
"""Shorter intervals are not told apart."""


def check_windows(metrics: MetricsFacts, examination: Examination) -> Check:
    """Whether each window has enough samples."""
    name, policy = CheckName.WINDOWS, examination.policy.policy
    if not metrics.measures:
        return skipped(name, "The policy measures no resource.")
    scraped = f"Scraped every {_intervals(metrics)}; windows {_windows(policy)}."
    for facts in metrics.measures:
        if facts.short_windows:
            sentence = "; ".join(facts.short_windows)
            found = f"For {facts.name}, {sentence.partition(': set windows')[0]}."
            return problem(name, found, _wider(facts))
    for severity, least in (
        (Verdict.PROBLEM, LEAST_SAMPLES),
        (Verdict.WARNING, SAMPLES_PER_WINDOW),
    ):
        for facts, window in _short(metrics, policy, least):
            interval = facts.interval_seconds or 0.0
            found = (
                f"For {facts.name}, the window {duration_text(window)} has "
                f"{window / interval:.1f} samples, scraped every {interval:.0f} s."
            )
            return Check(name, severity, found, _wider(facts))
    if not any(facts.interval_seconds for facts in metrics.measures):
        return ok(name, f"The scrape interval is not known; windows {_windows(policy)}.")
    return ok(name, scraped)


def shortest_window_seconds(interval_seconds: float) -> int:
    """The shortest window with enough samples, in whole minutes."""
    return -(-round(interval_seconds * SAMPLES_PER_WINDOW) // 60) * 60


def _wider(facts: MeasureFacts) -> str:
    least = duration_text(shortest_window_seconds(facts.interval_seconds or 0.0))
    resource = facts.resource.value
    return f"Set `windows.{resource}` to at least {least}, or let Prometheus scrape more often."


def _short(
    metrics: MetricsFacts, policy: Policy, samples: int
) -> Iterator[tuple[MeasureFacts, int]]:
    """The measures whose shortest window has fewer samples."""
    for facts in metrics.measures:
        interval, window = facts.interval_seconds, policy.windows(facts.resource)[0]
        if interval and interval > FINEST_INTERVAL_SECONDS and window < samples * round(interval):
            yield facts, window


def _intervals(metrics: MetricsFacts) -> str:
    seconds_found = {round(f.interval_seconds) for f in metrics.measures if f.interval_seconds}
    return intervals_text(sorted(seconds_found)) or "?"


def intervals_text(seconds: Iterable[int]) -> str:
    """Scrape intervals in seconds, for people."""
    texts = [
        f"{second_count} s" + " or less" * (second_count <= FINEST_INTERVAL_SECONDS)
        for second_count in seconds
    ]
    return " and ".join(texts)


def _windows(policy: Policy) -> str:
    parts = (
        f"{'/'.join(map(duration_text, rule.windows_seconds))} for {rule.resource.value}"
        for rule in policy.rules
        if rule.windows_seconds
    )
    return ", ".join(parts)


def check_history(snapshot: Snapshot, examination: Examination) -> Check:
    """Whether the past of nodes is long enough to show how their load swings."""
    name, policy = CheckName.HISTORY, examination.policy.policy
    if policy.metrics.type.is_sampled:
        first = duration_text(first_decision_seconds(policy))
        title = policy.metrics.type.in_words
        return ok(
            name,
            f"None is needed from {title}, which has none: a service takes samples, and decides "
            f"after {first}.",
        )
    nodes = _old_enough(snapshot, policy)
    if not nodes:
        return skipped(name, "No node is old enough for it.")
    span = duration_text(policy.history.seconds)
    late = [node for node in nodes if _begins_late(snapshot, node)]
    if late:
        verdict = f"{count(len(late), 'node has', 'nodes have')} no history of {span}"
        return warning(
            name,
            f"{verdict}, so forecasts of their load are rough: {first_names(late, 5)}.",
            "Wait until Prometheus has data for so long; evictions need only the `windows`.",
        )
    if blind := _without_destination_load(snapshot, policy):
        return warning(
            name,
            f"The load over destinationWindows is unknown for {count(len(blind), 'node')}, which "
            f"receive no pod: {first_names(blind, 5)}.",
            "Shorten `destinationWindows`, or wait until Prometheus has data for that long.",
        )
    return ok(name, f"{count(len(nodes), 'node has', 'nodes have')} a history of {span}.")


def _old_enough(snapshot: Snapshot, policy: Policy) -> list[str]:
    """The nodes in scope that were there for the whole time."""
    span = timedelta(seconds=policy.history.seconds + policy.shortest_window_seconds)
    return [
        node.name
        for node in snapshot.cluster.nodes
        if not out_of_scope(node, policy, snapshot.taken_at)
        and snapshot.taken_at - node.created_at >= span
    ]


def _begins_late(snapshot: Snapshot, node: str) -> bool:
    histories = snapshot.load.history.get(node, {}).values()
    return not histories or any(h.ratios[0] is None for h in histories)


def _without_destination_load(snapshot: Snapshot, policy: Policy) -> list[str]:
    """The nodes whose load over some destination window is not known."""
    if not any(rule.destination_windows for rule in policy.rules):
        return []
    return [
        node
        for node in _old_enough(snapshot, policy)
        if not (ratios_of := snapshot.load.destination_ratios.get(node))
        or any(ratio is None for ratios in ratios_of.values() for ratio in ratios)
    ]
