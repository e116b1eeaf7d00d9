"""What a soak has shown, and whether all of it is as it must be."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tests.controlplane.attacks import Attack
from tests.controlplane.manifests import Object
from tests.controlplane.soak_agenda import Journal
from tests.controlplane.soak_form import MOST_MEMORY_MIB, Form
from tests.controlplane.soak_incidents import Spell
from tests.controlplane.soak_observer import Growth, Life, Sample, TaintWatch
from tests.controlplane.soak_witness import Witness

MOST_MORE_DESCRIPTORS = 8
"""Fresh looks side by side open up to five connections that stay, and faults leave some behind."""


@dataclass
class Outcome:
    """The figures of one run."""

    form: Form
    seed: int
    journal: Journal
    samples: list[Sample]
    witness: Witness
    cycles: list[Object]
    complaints: list[str]
    growth: list[Growth]
    lives: list[Life]
    taints: TaintWatch
    needless: list[str]
    left_tainted: list[str]
    in_flight: list[str]
    spells: Sequence[Spell] = ()
    attacks: Sequence[Attack] = ()

    @property
    def problems(self) -> list[str]:
        """What must not be, empty if all is well."""
        return list(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from self.witness.problems
        yield from self.needless
        yield from self.taints.problems
        yield from (f"left over: {node} still has the taint" for node in self.left_tainted)
        yield from (f"unknown: what became of {pod}" for pod in self.witness.unexplained)
        yield from (f"in flight at the end: {pod}" for pod in self.in_flight)
        yield from (f"a bug: {line}" for line in self.complaints)
        for spell in self.spells:
            if spell.shown(self.cycles) is None:
                yield f"no cycle was held because of an incident ({spell.what})"
            for each in spell.evictions(self.witness.accepted, self.cycles):
                yield f"moved during an incident ({spell.what}): {each.name} at {each.began}"
        if not self.witness.accepted:
            yield "idle: nothing was evicted, so nothing was shown"
        yield from self._problems_of_memory()

    def _problems_of_memory(self) -> Iterator[str]:
        for life in self.lives:
            if life.most_mib >= MOST_MEMORY_MIB:
                yield f"memory of {life.name}: {life.most_mib} MiB"
        if not self.growth:
            yield "idle: no process led for long enough to judge its memory"
        for growth in self.growth:
            if growth.rss_ratio > self.form.most_rss_growth_ratio:
                yield f"memory of {growth.name} grew by {growth.rss_ratio:.1%}"
            if growth.last_descriptors > growth.first_descriptors + MOST_MORE_DESCRIPTORS:
                yield (
                    f"file descriptors of {growth.name} grew from {growth.first_descriptors:.0f} "
                    f"to {growth.last_descriptors:.0f}"
                )

    @property
    def results(self) -> Counter[str]:
        """What became of the evictions that took effect."""
        known = self.witness.results
        return Counter(known[r.name] for r in self.witness.accepted if r.name in known)

    @property
    def longest_gap_seconds(self) -> float:
        """The longest time in which no cycle was completed."""
        times = [datetime.fromisoformat(line["timestamp"]) for line in self.cycles]
        gaps = (b - a for a, b in pairwise(times))
        return max((gap.total_seconds() for gap in gaps), default=0.0)
