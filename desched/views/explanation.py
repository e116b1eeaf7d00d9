"""Explanations of a node, a pod or a workload in a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby

from rich.text import Text

from desched.model.cluster import DEFAULT_SCHEDULER
from desched.model.plan import NodeVerdict, ResourcePressure
from desched.model.text import count_of_nodes
from desched.policy.durations import duration_text
from desched.views.blocks import Block, grid, item, listed, section, styled, table
from desched.views.explained.values import (
    Explanation,
    LandingForecast,
    LoadChange,
    LoadSummary,
    NodeExplanation,
    Placement,
    PodExplanation,
    PodOutcome,
    PodSummary,
    RuleLine,
    RuleOutcome,
    WorkloadExplanation,
)
from desched.wording.formatting import (
    RESOURCE_NAMES,
    clock_time,
    count,
    percent,
    resource_title,
    words,
)
from desched.wording.reasons import describe, describe_outlook

_GIB, _MIB = 2**30, 2**20
_MILLICORES_PER_CORE = 1000
MOST_REASONS = 4
_SHOWN_SHARE = 0.005
"""What rounds to 0 % is not worth a line."""

_LINES = "target/stop/ceiling"
_NOT_READ = "its usage was not read, for no decision needed it"


def explanation_blocks(explanation: Explanation) -> Iterator[Block]:
    """The explanation."""
    yield styled(f"desched · explain · {explanation.target}")
    yield f"at {explanation.taken_at:%Y-%m-%d %H:%M:%S} UTC · policy {explanation.policy}"
    if explanation.hold is not None:
        reason = describe(explanation.hold, explanation.hold_detail)
        yield styled(f"The whole cycle evicts nothing: {reason}", "yellow")
    yield ""
    if explanation.node is not None:
        yield from _node(explanation.node, explanation)
    if explanation.pod is not None:
        yield from _pod(explanation.pod)
    if explanation.workload is not None:
        yield from _workload(explanation.workload, explanation)


def _node(node: NodeExplanation, whole: Explanation) -> Iterator[Block]:
    verdict = node.verdict
    of_pool = f" (pool {verdict.pool})" if verdict.pool else ""
    yield styled(f"{verdict.node}{of_pool} is {words(verdict.node_class)}.")
    if outlook := describe_outlook(verdict):
        yield outlook
    if verdict.reason is not None:
        yield _reason(verdict.reason, verdict.detail)
    if verdict.until is not None:
        yield f"This ends at {clock_time(verdict.until, whole.taken_at)} at the earliest."
    yield from (*node.notes, "")
    yield _loads(node)
    yield from _remaining(node)
    if node.arriving:
        names = ", ".join(str(arrival.pod) for arrival in node.arriving)
        yield f"It may get the replacements of {names}."
    yield ""
    yield from _changes("to relieve or to judge it", node.changes)
    yield from _pods("on it", node.pods)


def _reason(reason: StrEnum | None, detail: str) -> str:
    return f"{reason}: {describe(reason, detail)}"


def _loads(node: NodeExplanation) -> Block:
    """A column for each load."""
    if not node.loads:
        return "No load of it is known."
    pressures = {pressure.resource: pressure for pressure in node.verdict.pressures}
    columns = [_column(load, pressures.get(load.resource)) for load in node.loads]
    windows = ("/".join(duration_text(w) for w, _ in load.measured if w) for load in node.loads)
    names = (resource_title(load.resource) for load in node.loads)
    titles = [f"{name} {of}".rstrip() for name, of in zip(names, windows, strict=True)]
    rows = ((title, *(column[title] for column in columns)) for title in columns[0])
    return table(("", *titles), [row for row in rows if any(row[1:])])


def _column(load: LoadSummary, pressure: ResourcePressure | None) -> Mapping[str, str]:
    return {
        "load %": "/".join(percent(ratio) for _, ratio in load.measured) or "?",
        _LINES: _lines(pressure) if pressure else "",
        "after the plan": _percent(pressure.after_ratio if pressure else None),
        "of its pods": _percent(load.pods_ratio),
        "of pods that left": _percent((pressure.departed_ratio or None) if pressure else None),
        "of others": _percent(load.other_ratio),
        "age of samples, s": "" if load.age_seconds is None else f"{load.age_seconds:.0f}",
    }


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else percent(ratio)


def _lines(lines: ResourcePressure | LoadChange) -> str:
    ratios = (lines.target_ratio, lines.stop_ratio, lines.ceiling_ratio)
    return "/".join(percent(ratio).removesuffix(".0") for ratio in ratios)


def _remaining(node: NodeExplanation) -> Iterator[str]:
    for load in node.loads:
        if load.excess_ratio is None or load.relief_ratio is None:
            continue
        name, left = RESOURCE_NAMES[load.resource], load.excess_ratio - load.relief_ratio
        above = f"{name} is {percent(load.excess_ratio)} points above its stop line"
        if not load.relief_ratio:
            yield f"{above}, and the plan takes nothing off."
        elif left > 0:
            taken = percent(load.relief_ratio)
            yield f"{above}; the plan takes {taken} off, and {percent(left)} remain."
        else:
            yield f"{above}; the plan takes {percent(load.relief_ratio)} off, which is enough."
        if load.staying and left > 0:
            parts = [
                f"{percent(part.ratio)} points by {count(part.pods, 'pod')} ({part.reason})"
                for part in load.staying[:MOST_REASONS]
            ]
            if more := load.staying[MOST_REASONS:]:
                parts.append(f"{percent(sum(part.ratio for part in more))} points by other reasons")
            if load.other_ratio and percent(load.other_ratio) != percent(0):
                parts.append(f"{percent(load.other_ratio)} points by others than its pods")
            yield f"What stays: {', '.join(parts)}."


def _pods(where: str, pods: Sequence[PodSummary], *, named: bool = False) -> Iterator[Block]:
    """Each pod with its load and verdict; `named` with the name of its node."""
    said = set()
    items = []
    for pod in pods:
        title = styled(f"{pod.pod} ").append(
            styled(f"{f'on {pod.node} ' if named else ''}{_shares(pod)}", "not bold")
        )
        verdict = _verdict_of(pod)
        again = verdict in said and pod.outcome is PodOutcome.STAYS
        items.append(item(title, [f"stays, {pod.reason}, as above" if again else verdict]))
        said.add(verdict)
    if items:
        yield from section(f"{count(len(pods), 'pod')} {where}, the largest load first", *items)


def _shares(pod: PodSummary) -> str:
    parts = (("CPU", pod.cpu_ratio), ("memory", pod.memory_ratio), ("GPU", pod.gpu_ratio))
    shares = [f"{percent(ratio)} % {name}" for name, ratio in parts if ratio is not None]
    return ", ".join(shares) or ("not measured" if pod.usage_read else _NOT_READ)


def _verdict_of(pod: PodSummary) -> str:
    match pod.outcome:
        case PodOutcome.EVICTED:
            return f"would be evicted; its replacement is expected on {pod.expected_on}"
        case PodOutcome.NOT_NEEDED:
            return "could be evicted, but its node is not overloaded"
        case PodOutcome.STAYS:
            return f"stays, {_reason(pod.reason, pod.detail)}"


def _pod(pod: PodExplanation) -> Iterator[Block]:
    summary = pod.summary
    on = f" on {summary.node}" if summary.node else ", which has no node,"
    yield styled(pod.verdict or f"{summary.pod}{on} {_verdict_of(summary)}")
    yield _about(pod)
    if pod.eviction is not None and pod.eviction.saving:
        yield f"Its move {pod.eviction.saving}."
    yield from pod.notes
    if pod.verdict:
        yield ""
        for title, lines in pod.details.items():
            yield from listed(title, lines)
        return
    if pod.node_verdict is not None:
        yield from _of_node(pod.node_verdict)
    if pod.after_eviction:
        yield f"If it is evicted, {pod.after_eviction}."
    yield ""
    yield from _changes("for it to move", pod.changes)
    yield from section("Rules, in order", grid(_rules(pod.rules)))
    if pod.placement is not None:
        yield from _placement(pod.placement, summary.node, pod.scheduler)


def _about(pod: PodExplanation) -> str:
    summary = pod.summary
    of = (
        f"of {summary.workload} with {count(pod.replicas, 'replica')}"
        if summary.workload
        else ("without a workload that desched understands")
    )
    unknown = "what it uses is not measured" if summary.usage_read else _NOT_READ
    uses = " and ".join(_usage(summary)) or unknown
    scheduler = "" if pod.scheduler == DEFAULT_SCHEDULER else f", placed by {pod.scheduler}"
    return f"{of}, priority {pod.priority}{scheduler}; {uses}"


def _usage(pod: PodSummary) -> Iterator[str]:
    if pod.cpu_millicores is not None:
        yield f"uses {pod.cpu_millicores / _MILLICORES_PER_CORE:.2f} cores"
    if pod.memory_bytes is not None:
        yield _memory(pod.memory_bytes)
    if pod.gpus is not None:
        yield f"{pod.gpus:.2f} GPUs"


def _memory(amount_bytes: float) -> str:
    if amount_bytes >= _GIB:
        return f"{amount_bytes / _GIB:.1f} GiB of memory"
    return f"{amount_bytes / _MIB:.0f} MiB of memory"


def _of_node(verdict: NodeVerdict) -> Iterator[str]:
    highest = sorted(verdict.pressures, key=lambda p: p.target_ratio - p.lowest_ratio)
    loads = ", ".join(
        f"{RESOURCE_NAMES[p.resource]} {percent(p.lowest_ratio)} % "
        f"(target {percent(p.target_ratio)} %)"
        for p in highest
    )
    loads_text = f": {loads}" if loads else ""
    reason = f"; {_reason(verdict.reason, verdict.detail)}" if verdict.reason else ""
    yield f"{verdict.node} is {words(verdict.node_class)}{loads_text}{reason}"
    if outlook := describe_outlook(verdict):
        yield outlook


def _rules(rules: Iterable[RuleLine]) -> Iterator[Sequence[Text]]:
    for outcome, alike in groupby(rules, lambda rule: rule.outcome):
        if outcome is RuleOutcome.PASSED:
            yield Text("passed"), styled(", ".join(rule.reason for rule in alike), "dim")
            continue
        for rule in alike:
            style = "yellow" if outcome is RuleOutcome.LIFTED else "red"
            yield Text(outcome, style=style), styled(_reason(rule.reason, rule.detail), "")


def _placement(placement: Placement, source: str, scheduler: str) -> Iterator[Block]:
    lines = [
        *(count_of_nodes(nodes, reason) for reason, nodes in placement.excluded.items()),
        *(f"limited by {limit}" for limit in placement.limits),
        *(f"nearest: {lacking}" for lacking in placement.near),
    ]
    if placement.expected_on:
        lines.insert(0, f"expected on {placement.expected_on}")
    elif placement.reason is not None:
        lines.insert(0, _reason(placement.reason, placement.detail))
    nodes = count(placement.nodes, "node")
    yield from listed(f"{placement.suitable} of {nodes} can take it now, if it moves alone", lines)
    if placement.forecast is not None:
        yield from _forecast(placement.forecast, source, scheduler)
    if placement.loads:
        titles = ("Load %", "", "before", "after", _LINES)
        rows = [
            (
                change.node,
                RESOURCE_NAMES[change.resource],
                percent(change.before_ratio),
                percent(change.after_ratio),
                _lines(change),
            )
            for change in placement.loads
        ]
        yield from (table(titles, rows), "")


def _forecast(forecast: LandingForecast, source: str, scheduler: str) -> Iterator[Block]:
    is_known = forecast.most_risk is not None
    rows = []
    for node in forecast.nodes:
        parts = ", ".join(f"{name} {score}" for name, score in node.by_plugin.items() if score)
        name = f"{node.node} (harmful)" if node.harmful else node.node
        scores = (str(node.score), styled(parts, "dim")) if is_known else ("", "")
        rows.append((name, f"{node.probability:.0%}", *scores))
    left = 1 - sum(node.probability for node in forecast.nodes)
    if forecast.nodes and left >= _SHOWN_SHARE:
        rows.append(("other nodes", f"{left:.0%}", "", ""))
    placing = "kube-scheduler" if scheduler == DEFAULT_SCHEDULER else scheduler
    titles = ("Node", "probability", "score", "sum of")
    yield from section(f"Where {placing} would put its replacement", table(titles, rows))
    accepted = (
        "any is accepted; scheduler.others in the policy can name the scheduler's profile"
        if forecast.most_risk is None
        else f"at most {forecast.most_risk:.0%} is accepted"
    )
    line = (
        f"Risk {forecast.risk:.0%}: {forecast.back_ratio:.0%} to come back to {source}, "
        f"{forecast.harm_ratio:.0%} to land elsewhere where it would do harm; {accepted}."
    )
    if forecast.steered:
        steered = ", ".join(forecast.steered)
        line += f" Without soft taints on {steered} it would be {forecast.without_taints:.0%}."
    yield from (line, "")


def _changes(purpose: str, changes: Sequence[str]) -> Iterator[Block]:
    yield from listed(f"What would have to change {purpose}", changes, "• ")


def _workload(workload: WorkloadExplanation, whole: Explanation) -> Iterator[Block]:
    ready = f", {workload.ready_replicas} Ready" if workload.ready_replicas is not None else ""
    replicas = count(workload.desired_replicas, "replica")
    yield styled(f"{workload.workload} with {replicas}{ready}")
    yield from (*_pace(workload, whole), "")
    yield from _pods("of it", workload.pods, named=True)


def _pace(workload: WorkloadExplanation, whole: Explanation) -> Iterator[str]:
    yield (
        f"{workload.in_flight} of its moves are under way{_most(workload.most_in_flight)}; "
        f"{workload.moved_within_hour} within the hour{_most(workload.most_within_hour)}."
    )
    if workload.cooling_down_until is not None:
        after = f" after {workload.result.value}" if workload.result else ""
        until = clock_time(workload.cooling_down_until, whole.taken_at)
        yield f"It cools down until {until}{after}."
    yield from workload.budgets or ["No PodDisruptionBudget covers it."]
    yield from (f"Pause: {pause}." for pause in workload.pauses)


def _most(limit: int | None) -> str:
    return "" if limit is None else f" (at most {limit})"
