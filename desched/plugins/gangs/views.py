"""What is seen of gangs."""

from collections.abc import Iterator

from msgspec.structs import replace

from desched.decision import Decision
from desched.gangs.members import gangs_of
from desched.model.cluster import Pod
from desched.model.report import CycleReport
from desched.plugins.gangs.facts import GangFacts, GangSpread
from desched.wording.formatting import count
from desched.wording.plugin_views import PluginViews
from desched.wording.section import PodAnswer, Section


class GangViews(PluginViews):
    """How far apart the pods of gangs are."""

    def sections(self, report: CycleReport) -> Iterator[Section]:
        """The gangs on overloaded nodes."""
        facts = GangFacts.of(report.facts) or GangFacts()
        spreads = [describe_spread(spread) for spread in facts.spreads if spread.overloaded]
        yield Section("Gangs on overloaded nodes", spreads)

    def explain_pod(self, pod: Pod, decision: Decision) -> PodAnswer:
        """How far apart the pods of its gangs are."""
        facts = GangFacts.of(decision.facts) or GangFacts()
        gangs = {str(replace(group, part="")) for group in gangs_of(pod, decision.context)}
        spreads = (spread for spread in facts.spreads if spread.gang in gangs)
        return PodAnswer(notes=[f"{describe_spread(spread)}." for spread in spreads])


def describe_spread(spread: GangSpread) -> str:
    """How far apart the pods of a gang are, and what would bring them closer, without a period."""
    where = f"in {spread.domain}" if spread.domain else "in no common domain"
    text = f"{spread.gang}: {count(spread.pods, 'pod')} on {count(spread.nodes, 'node')} {where}"
    if not spread.closer:
        return text
    move = f"{count(spread.outside, 'pod')} would have to move for all to be in {spread.closer}"
    return f"{text}; {move}"
