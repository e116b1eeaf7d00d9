"""The report of a soak: figures as Markdown, and plots."""

import os
import platform
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from tests.controlplane.soak_cluster import CPU_TARGET
from tests.controlplane.soak_incidents import Spell
from tests.controlplane.soak_observer import Sample
from tests.controlplane.soak_outcome import Outcome
from tests.controlplane.soak_plot import Line, plot

_RED, _BLUE, _GREEN, _GREY = "#c0392b", "#2471a3", "#1e8449", "#7f8c8d"
_COLOURS = (_BLUE, _RED, _GREEN, _GREY, "#8e44ad", "#b9770e")
_MIB = 1 << 20

_INTRODUCTION = """\
# The last soak

This page is for people who judge reliability: the last run of `make soak`.
[Drills](../../drills/README.md#soak) lists what it checks.

"""


def write_report(outcome: Outcome, directory: Path) -> None:
    """Write `soak.md` and its plots into the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    _plot(outcome, directory)
    text = _INTRODUCTION + figures(outcome)
    (directory / "soak.md").write_text(text, encoding="utf-8")


def figures(outcome: Outcome) -> str:
    """What happened, as Markdown."""
    return "\n".join(_lines(outcome)) + "\n"


def _plot(outcome: Outcome, directory: Path) -> None:
    samples = outcome.samples
    marks = [event.seconds for event in outcome.journal.events if event.sort == "fault"]
    target = [(s.seconds, 100 * CPU_TARGET) for s in (samples[:1] + samples[-1:])]
    load = [
        Line("hottest node", _RED, [(s.seconds, 100 * s.highest_cpu_ratio) for s in samples]),
        Line("mean", _BLUE, [(s.seconds, 100 * s.mean_cpu_ratio) for s in samples]),
        Line("target", _GREY, target, dashed=True),
    ]
    plot(directory / "load.svg", "CPU demand, % of capacity (red ticks: faults)", load, marks)
    nodes = [
        Line("overloaded", _RED, [(s.seconds, s.overloaded) for s in samples]),
        Line("with the soft taint", _GREEN, [(s.seconds, s.tainted) for s in samples]),
    ]
    plot(directory / "nodes.svg", "Nodes (red ticks: faults)", nodes, marks)
    used = [
        Line(
            life.name,
            _COLOURS[number % len(_COLOURS)],
            [(s, b / _MIB) for s, b in zip(life.seconds, life.rss_bytes, strict=True)],
        )
        for number, life in enumerate(outcome.lives)
    ]
    plot(directory / "memory.svg", "Memory of the processes, MiB", used, marks)
    evictions = [Line("evictions", _BLUE, [(s.seconds, s.evictions) for s in samples])]
    plot(directory / "evictions.svg", "Evictions so far (red ticks: faults)", evictions, marks)


def _lines(outcome: Outcome) -> Iterator[str]:
    witness, samples = outcome.witness, outcome.samples
    answers = Counter(request.code for request in witness.asked)
    durations = [line["duration_seconds"] for line in outcome.cycles]
    today = datetime.now(UTC).date()
    yield f"{today}, {_machine()}, seed {outcome.seed}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield _row(
        "nodes, pods",
        f"{samples[0].nodes}, {samples[0].pods} at first, "
        f"{min(s.pods for s in samples)} to {max(s.pods for s in samples)} later",
    )
    yield _row("lasted", f"{outcome.journal.seconds() / 60:.0f} min")
    yield _row("churn", _counted(outcome.journal.counts("churn")))
    yield _row("load", _counted(outcome.journal.counts("load")))
    yield _row("faults", _counted(outcome.journal.counts("fault")))
    if trouble := outcome.journal.counts("harness"):
        yield _row("what the machine was too busy for", _counted(trouble))
    yield _row(
        "cycles completed",
        f"{len(outcome.cycles)} by {len(outcome.lives)} processes; "
        f"median {statistics.median(durations):.1f} s, longest {max(durations):.1f} s",
    )
    yield _row("longest time without a completed cycle", f"{outcome.longest_gap_seconds:.0f} s")
    yield _row("most memory of a process", f"{max(life.most_mib for life in outcome.lives)} MiB")
    for attack in outcome.attacks:
        yield _row(attack.what, f"{attack.count}, {attack.failed} failed")
    for spell in outcome.spells:
        yield _row(spell.what, _told(spell, outcome))
    yield _row("overloaded node-minutes, by tenths of the time", _overloaded(outcome.samples))
    yield _row("requests to evict, by answer", _counted(answers))
    yield _row("evictions", str(len(witness.accepted)))
    yield _row("what became of them", _counted(outcome.results))
    yield _row("writes of taints", str(witness.taints.total()))
    yield _row(
        "most nodes overloaded, tainted at a time",
        f"{max(s.overloaded for s in samples)}, {max(s.tainted for s in samples)}",
    )
    yield _row(
        "longest that a taint outlasted its time without a fault",
        f"{outcome.taints.longest_seconds:.0f} s",
    )
    for growth in outcome.growth:
        yield _row(
            f"{growth.name}: {growth.lasted_seconds / 60:.0f} min after its warm-up",
            f"{growth.first_rss_bytes / _MIB:.0f} → {growth.last_rss_bytes / _MIB:.0f} MiB "
            f"({growth.rss_ratio:+.1%}), {growth.first_descriptors:.0f} → "
            f"{growth.last_descriptors:.0f} file descriptors",
        )
    yield _row("**problems**", _problems(outcome.problems))
    yield ""
    yield "![load](load.svg)"
    yield "![nodes](nodes.svg)"
    yield "![evictions](evictions.svg)"
    yield "![memory](memory.svg)"


def _told(spell: Spell, outcome: Outcome) -> str:
    shown = spell.shown(outcome.cycles)
    if shown is None:
        return f"{(spell.over - spell.began).total_seconds():.0f} s, no cycle was held"
    later = [r.began for r in outcome.witness.accepted if r.began >= spell.over]
    moved = f"{(min(later) - spell.over).total_seconds():.0f} s after it" if later else "never"
    return (
        f"{(spell.over - spell.began).total_seconds():.0f} s; first cycle that was held "
        f"{(shown - spell.began).total_seconds():.0f} s after its beginning; evictions from then "
        f"to its end {len(spell.evictions(outcome.witness.accepted, outcome.cycles))}; next "
        f"eviction {moved}"
    )


def _overloaded(samples: Sequence[Sample]) -> str:
    minutes = [0.0] * 10
    for before, now in pairwise(samples):
        tenth = min(9, int(10 * now.seconds / samples[-1].seconds))
        minutes[tenth] += now.overloaded * (now.seconds - before.seconds) / 60
    return " ".join(f"{each:.0f}" for each in minutes)


def _row(name: str, value: str) -> str:
    return f"| {name} | {value} |"


def _counted(counts: Counter[str] | Counter[int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.most_common()) or "none"


def _problems(problems: Sequence[str]) -> str:
    text = "<br>".join(problem[:300].replace("|", "\\|") for problem in problems)
    return text.replace("\n", " ") or "none"


def _machine() -> str:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{os.cpu_count()} CPUs, {memory_bytes / 2**30:.0f} GiB, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}"
    )
