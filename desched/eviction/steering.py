"""Sets the soft taints that a plan needs, and removes those that nothing needs any more."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from desched.model.plan import PlannedEviction, PlannedTaint, TaintRemoval
from desched.model.report import TaintChange
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

    def remove(self, removals: Iterable[TaintRemoval]) -> str:
        """Remove the taint from these nodes; return the errors, empty without any.

        The plan is valid only without errors, because it assumes that these taints are gone.
        """
        failed = {each.node: self._change(each.node, each.why, tainted=False) for each in removals}
        return "; ".join(f"{node}: {detail}" for node, detail in failed.items() if detail)

    def set_standing(self, taints: Iterable[PlannedTaint]) -> None:
        """Set or renew taints that do not wait for an eviction of this cycle."""
        for taint in taints:
            self._taint(taint.node, taint.why)

    def steer(self, eviction: PlannedEviction) -> str:
        """Set the taints that the landing needs; return the error, empty if all are set."""
        for node in eviction.steered:
            failed = self._taint(node, f"it must not receive the replacement of {eviction.pod}")
            if failed:
                return f"{node}: {failed}"
        return ""

    def _taint(self, node: str, why: str) -> str:
        if any(each.node == node and each.tainted and each.done for each in self.changes):
            return ""
        return self._change(node, why, tainted=True)

    def _change(self, node: str, why: str, *, tainted: bool) -> str:
        if self.steerer is None or not self.may_act():
            return "leadership was lost" if self.steerer else "this run sets no taints"
        until: datetime = self.clock.now() + self.lasting
        answer = self.steerer.taint(node, until) if tainted else self.steerer.untaint(node)
        detail = "" if answer.done else answer.detail or "the response is not understood"
        self.changes += (TaintChange(node, tainted, why, answer.done, detail),)
        return detail
