"""Explanations of a node, a pod or a workload in a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.model.cluster import DEFAULT_SCHEDULER
from desched.model.plan import NodeVerdict, ResourcePressure
from desched.model.text import count_of_nodes
from desched.policy.durations import duration_text
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
from desched.views.grouped_list import block, plain_table, print_lines, print_section
from desched.views.outlook import describe_outlook, describe_saving
from desched.wording.formatting import (
    RESOURCE_NAMES,
    clock_time,
    count,
    percent,
    plain,
    resource_title,
    words,
)
from desched.wording.reasons import describe

_GIB, _MIB = 2**30, 2**20
_MILLICORES_PER_CORE = 1000
MOST_REASONS = 4
_SHOWN_SHARE = 0.005
"""What rounds to 0 % is not worth a line."""

_NOT_READ = "its usage was not read, for no decision needed it"
NARROW_COLUMNS = 70


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Print the explanation."""
    taken_at = f"{explanation.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    console.print(Text(f"desched · explain · {plain(explanation.target)}", style="bold"))
    console.print(Text(f"at {taken_at} · policy {plain(explanation.policy)}"))
    if explanation.hold is not None:
        reason = describe(explanation.hold, explanation.hold_detail)
        console.print(Text(plain(f"The whole cycle evicts nothing: {reason}"), style="yellow"))
    console.print()
    if explanation.node is not None:
        _print_node(explanation.node, explanation, console)
    if explanation.pod is not None:
        _print_pod(explanation.pod, console)
    if explanation.workload is not None:
        _print_workload(explanation.workload, explanation, console)


def _print_node(node: NodeExplanation, whole: Explanation, console: Console) -> None:
    console.print(Text(plain(_class_of(node)), style="bold"))
    for line in _judgement(node, whole):
        console.print(Text(plain(line)))
    console.print()
    _print_loads(node, console)
    for line in _remaining(node):
        console.print(Text(line))
    if node.arriving:
        names = ", ".join(str(arrival.pod) for arrival in node.arriving)
        console.print(Text(plain(f"It may get the replacements of {names}.")))
    console.print()
    _print_changes("to relieve or to judge it", node.changes, console)
    _print_pods("on it, the largest load first", node.pods, console)


def _judgement(node: NodeExplanation, whole: Explanation) -> Iterator[str]:
    """What is expected of the node, why it is not relieved, and what plugins say of it."""
    verdict = node.verdict
    if outlook := describe_outlook(verdict):
        yield f"{outlook}."
    if verdict.reason is not None:
        yield f"{verdict.reason}: {describe(verdict.reason, verdict.detail)}"
    if verdict.until is not None:
        yield f"This ends at {clock_time(verdict.until, whole.taken_at)} at the earliest."
    yield from node.notes


def _class_of(node: NodeExplanation) -> str:
    verdict = node.verdict
    of_pool = f" (pool {verdict.pool})" if verdict.pool else ""
    return f"{verdict.node}{of_pool} is {words(verdict.node_class)}."


def _print_loads(node: NodeExplanation, console: Console) -> None:
    """Print a row for each load, or a sentence where a table does not fit."""
    if not node.loads:
        console.print(Text("No load of it is known."))
        return
    lines = {pressure.resource: pressure for pressure in node.verdict.pressures}
    rows = [(_with_windows(load), _cells(load, lines.get(load.resource))) for load in node.loads]
    if console.width < NARROW_COLUMNS:
        for name, cells in rows:
            shown = ", ".join(f"{heading} {text}" for heading, text in cells.items() if text)
            console.print(Text(f"{name}: {shown}"))
        return
    table = plain_table()
    table.add_column("", overflow="fold")
    headings = [each for each in rows[0][1] if any(cells[each] for _, cells in rows)]
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    for name, cells in rows:
        table.add_row(name, *(cells[heading] for heading in headings))
    console.print(table)


def _cells(load: LoadSummary, pressure: ResourcePressure | None) -> Mapping[str, str]:
    return {
        "%": "/".join(percent(ratio) for _, ratio in load.measured) or "?",
        "target/stop/ceiling": _lines(pressure) if pressure else "",
        "after": _percent(pressure.after_ratio if pressure else None),
        "of pods": _percent(load.pods_ratio),
        "of pods that left": _percent((pressure.departed_ratio or None) if pressure else None),
        "of others": _percent(load.other_ratio),
        "samples": "" if load.age_seconds is None else f"{load.age_seconds:.0f} s old",
    }


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else percent(ratio)


def _lines(lines: ResourcePressure | LoadChange) -> str:
    ratios = (lines.target_ratio, lines.stop_ratio, lines.ceiling_ratio)
    return "/".join(percent(ratio).removesuffix(".0") for ratio in ratios)


def _with_windows(load: LoadSummary) -> str:
    windows = "/".join(duration_text(window) for window, _ in load.measured if window)
    return f"{resource_title(load.resource)} {windows}".rstrip()


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


def _print_pods(
    where: str, pods: Sequence[PodSummary], console: Console, *, named: bool = False
) -> None:
    """Print each pod with its load and verdict; `named` with the name of its node."""
    if not pods:
        return
    table = Table.grid(padding=(0, 0, 0, 2))
    table.add_column(overflow="fold")
    said = set()
    for pod in pods:
        on = f"on {plain(pod.node)} " if named else ""
        title = Text(f"{plain(str(pod.pod))} ", style="bold")
        title.append(f"{on}{_shares(pod)}", style="not bold")
        verdict = _verdict_of(pod)
        again = verdict in said and pod.outcome is PodOutcome.STAYS
        table.add_row(block(title, [f"stays, {pod.reason}, as above" if again else verdict]))
        said.add(verdict)
    print_section(f"{count(len(pods), 'pod')} {where}:", table, console)


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
            return f"stays, {pod.reason}: {describe(pod.reason, pod.detail)}"


def _print_pod(pod: PodExplanation, console: Console) -> None:
    summary = pod.summary
    on = f" on {summary.node}" if summary.node else ", which has no node,"
    verdict = f"{summary.pod}{on} {_verdict_of(summary)}"
    console.print(Text(plain(pod.verdict or verdict), style="bold"))
    console.print(Text(plain(_about(pod))))
    for line in (*_saving(pod), *pod.notes):
        console.print(Text(plain(line)))
    if pod.verdict:
        console.print()
        for title, lines in pod.details.items():
            print_lines(f"{title}:", lines, console)
        return
    for line in _node_lines(pod.node_verdict) if pod.node_verdict else ():
        console.print(Text(plain(line)))
    if pod.after_eviction:
        console.print(Text(plain(f"If it is evicted, {pod.after_eviction}.")))
    console.print()
    _print_changes("for it to move", pod.changes, console)
    _print_rules(pod.rules, console)
    if pod.placement is not None:
        _print_placement(pod.placement, summary.node, pod.scheduler, console)


def _saving(pod: PodExplanation) -> Iterator[str]:
    """What its move saves, if the plan evicts it for that."""
    if pod.eviction is not None and (saving := describe_saving(pod.eviction)):
        yield saving


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


def _node_lines(verdict: NodeVerdict) -> Iterator[str]:
    highest = sorted(verdict.pressures, key=lambda p: p.target_ratio - p.lowest_ratio)
    loads = ", ".join(
        f"{RESOURCE_NAMES[p.resource]} {percent(p.lowest_ratio)} % "
        f"(target {percent(p.target_ratio)} %)"
        for p in highest
    )
    loads_text = f": {loads}" if loads else ""
    description = describe(verdict.reason, verdict.detail)
    reason = f"; {verdict.reason}: {description}" if verdict.reason else ""
    yield f"{verdict.node} is {words(verdict.node_class)}{loads_text}{reason}"
    if outlook := describe_outlook(verdict):
        yield f"{outlook}."


def _print_rules(rules: Iterable[RuleLine], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for outcome, alike in groupby(rules, lambda rule: rule.outcome):
        if outcome is RuleOutcome.PASSED:
            table.add_row("passed", Text(", ".join(rule.reason for rule in alike), style="dim"))
            continue
        for rule in alike:
            text = f"{rule.reason}: {describe(rule.reason, rule.detail)}"
            style = "yellow" if outcome is RuleOutcome.LIFTED else "red"
            table.add_row(Text(outcome, style=style), Text(plain(text)))
    print_section("Rules, in order:", table, console)


def _print_placement(placement: Placement, source: str, scheduler: str, console: Console) -> None:
    lines = [count_of_nodes(group.nodes, group.reason) for group in placement.excluded] + [
        f"nearest: node {miss.node} {miss.lacks}" for miss in placement.near
    ]
    title = f"{placement.suitable} of {count(placement.nodes, 'node')} can take it now"
    if placement.expected_on:
        lines.insert(0, f"expected on {placement.expected_on}")
    elif placement.reason is not None:
        lines.insert(0, f"{placement.reason}: {describe(placement.reason, placement.detail)}")
    text = Text("\n".join(plain(f"  {line}") for line in lines))
    print_section(f"{title}, if it moves alone:", text, console)
    if placement.forecast is not None:
        _print_forecast(placement.forecast, source, scheduler, console)
    if placement.loads:
        _print_load_changes(placement.loads, console)


def _print_forecast(
    forecast: LandingForecast, source: str, scheduler: str, console: Console
) -> None:
    table = plain_table()
    table.add_column("Node", overflow="fold")
    table.add_column("probability", justify="right", overflow="fold")
    is_known = forecast.most_risk is not None
    if is_known:
        table.add_column("score", justify="right", overflow="fold")
        table.add_column("sum of", overflow="fold")
    for node in forecast.nodes:
        parts = ", ".join(f"{name} {score}" for name, score in node.by_plugin.items() if score)
        name = f"{node.node} (harmful)" if node.harmful else node.node
        scores = [Text(str(node.score)), Text(plain(parts), style="dim")]
        share = Text(f"{node.probability:.0%}")
        table.add_row(Text(plain(name)), share, *(scores if is_known else ()))
    left = 1 - sum(node.probability for node in forecast.nodes)
    if forecast.nodes and left >= _SHOWN_SHARE:
        table.add_row(Text("other nodes"), Text(f"{left:.0%}"))
    placing = "kube-scheduler" if scheduler == DEFAULT_SCHEDULER else scheduler
    print_section(f"Where {plain(placing)} would put its replacement:", table, console)
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
    console.print(Text(plain(line)))
    console.print()


def _print_load_changes(changes: Iterable[LoadChange], console: Console) -> None:
    table = plain_table()
    table.add_column("Load %", overflow="fold")
    for heading in ("", "before", "after", "target/stop/ceiling"):
        table.add_column(heading, justify="right", overflow="fold")
    for change in changes:
        table.add_row(
            Text(plain(change.node)),
            RESOURCE_NAMES[change.resource],
            percent(change.before_ratio),
            percent(change.after_ratio),
            _lines(change),
        )
    console.print(table)
    console.print()


def _print_changes(purpose: str, changes: Sequence[str], console: Console) -> None:
    if changes:
        text = Text("\n".join(plain(f"  • {change}") for change in changes))
        print_section(f"What would have to change {purpose}:", text, console)


def _print_workload(workload: WorkloadExplanation, whole: Explanation, console: Console) -> None:
    ready = f", {workload.ready_replicas} Ready" if workload.ready_replicas is not None else ""
    title = f"{workload.workload} with {count(workload.desired_replicas, 'replica')}{ready}"
    console.print(Text(plain(title), style="bold"))
    for line in _pace(workload, whole):
        console.print(Text(plain(line)))
    console.print()
    _print_pods("of it, the largest load first", workload.pods, console, named=True)


def _pace(workload: WorkloadExplanation, whole: Explanation) -> Iterator[str]:
    yield (
        f"{workload.in_flight} of its moves are under way{_most(workload.most_in_flight)}; "
        f"{workload.moved_within_hour} within the hour{_most(workload.most_within_hour)}."
    )
    if workload.cooling_down_until is not None:
        after = f" after {workload.result.value}" if workload.result else ""
        until = clock_time(workload.cooling_down_until, whole.taken_at)
        yield f"It cools down until {until}{after}."
    for budget in workload.budgets:
        allows = count(budget.disruptions_allowed, "disruption")
        stale = "" if budget.up_to_date else ", and its status is not up to date"
        yield f"PodDisruptionBudget {budget.budget} allows {allows} now{stale}."
    if not workload.budgets:
        yield "No PodDisruptionBudget covers it."
    yield from (f"Pause: {pause}." for pause in workload.pauses)


def _most(limit: int | None) -> str:
    return "" if limit is None else f" (at most {limit})"
