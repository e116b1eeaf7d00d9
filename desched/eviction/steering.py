"""Sets the soft taints that a plan needs, and removes taints that nothing needs any more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from desched.model.plan import PlannedEviction, PlannedTaint, TaintRemoval
from desched.model.report import TaintChange
from desched.planning.taints import why_steered
from desched.ports import Clock, Fence, Steerer


@dataclass(eq=False)
class Steering:
    """The soft taints of one cycle; `changes` has all attempts in order.

    Each taint expires after `lasting`, so that any later instance can remove the taints of one that
    died. Nothing is written once `may_act` returns false.
    """

    steerer: Steerer | None
    clock: Clock
    may_act: Fence
    lasting: timedelta
    changes: tuple[TaintChange, ...] = ()

    def remove(self, removals: Sequence[TaintRemoval]) -> str:
        """Remove the taint from these nodes; return the errors, empty without any.

        The plan is valid only without errors, because it assumes that these taints are gone.
        """
        failed = self._change({removal.node: removal.why for removal in removals}, tainted=False)
        return "; ".join(f"{node}: {detail}" for node, detail in failed.items())

    def set_standing(self, taints: Iterable[PlannedTaint]) -> None:
        """Set or renew taints that do not wait for an eviction of this cycle."""
        self._taint({taint.node: taint.why for taint in taints})

    def steer(self, eviction: PlannedEviction) -> str:
        """Set the taints that the landing needs; return the first error, empty if all are set."""
        failed = self._taint({node: why_steered(node, eviction) for node in eviction.steered})
        return next((f"{node}: {detail}" for node, detail in failed.items()), "")

    def _taint(self, whys: Mapping[str, str]) -> Mapping[str, str]:
        tainted = {change.node for change in self.changes if change.tainted and change.done}
        return self._change(
            {n: reason for n, reason in whys.items() if n not in tainted}, tainted=True
        )

    def _change(self, whys: Mapping[str, str], *, tainted: bool) -> Mapping[str, str]:
        """Change these nodes side by side; return the error of each that was not changed."""
        nodes = list(whys)
        if not nodes:
            return {}
        if self.steerer is None or not self.may_act():
            why_not = "leadership was lost" if self.steerer else "this run sets no taints"
            return dict.fromkeys(nodes, why_not)
        if tainted:
            answers = self.steerer.taint_all(nodes, self.clock.now() + self.lasting)
        else:
            answers = self.steerer.untaint_all(nodes)
        failed = {}
        for node, answer in zip(nodes, answers, strict=True):
            detail = "" if answer.done else answer.detail or "the response is not understood"
            self.changes += (TaintChange(node, tainted, whys[node], answer.done, detail),)
            if detail:
                failed[node] = detail
        return failed
