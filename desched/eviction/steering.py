"""Sets the soft taints that a plan needs, and takes away those that nothing needs any more."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from desched.model.plan import PlannedEviction, PlannedTaint, TaintRemoval
from desched.model.report import TaintChange
from desched.ports import Clock, Fence, Steerer


class Steering:
    """The soft taints of one cycle; `changes` is what was tried, in its order.

    Each taint names the time `lasting` from now by which it is to go, so that whichever instance
    runs then removes what a dead one has left. Nothing is written once `may_act` says no.
    """

    def __init__(
        self, steerer: Steerer | None, clock: Clock, may_act: Fence, lasting: timedelta
    ) -> None:
        self._steerer = steerer
        self._clock = clock
        self._may_act = may_act
        self._lasting = lasting
        self._tainted: set[str] = set()
        self.changes: tuple[TaintChange, ...] = ()

    def remove(self, removals: Iterable[TaintRemoval]) -> str:
        """Take the taint off these nodes, and return what went wrong.

        A plan counts them as gone: it holds only if nothing went wrong.
        """
        failed = {each.node: self._change(each.node, each.why, tainted=False) for each in removals}
        return "; ".join(f"{node}: {detail}" for node, detail in failed.items() if detail)

    def set_standing(self, taints: Iterable[PlannedTaint]) -> None:
        """Set or prolong those that do not wait for an eviction of this cycle."""
        for taint in taints:
            self._taint(taint.node, taint.why)

    def steer(self, eviction: PlannedEviction) -> str:
        """Set what the landing of a replacement counts on; why that failed, empty if it did not."""
        for node in eviction.steered:
            why = f"the replacement of {eviction.pod} would do harm there, or crowd it"
            failed = self._taint(node, why)
            if failed:
                return f"{node}: {failed}"
        return ""

    def _taint(self, node: str, why: str) -> str:
        if node in self._tainted:
            return ""
        failed = self._change(node, why, tainted=True)
        if not failed:
            self._tainted.add(node)
        return failed

    def _change(self, node: str, why: str, *, tainted: bool) -> str:
        if self._steerer is None or not self._may_act():
            return "leadership was lost" if self._steerer else "this run sets no taints"
        until: datetime = self._clock.now() + self._lasting
        answer = self._steerer.taint(node, until) if tainted else self._steerer.untaint(node)
        detail = "" if answer.done else answer.detail or "the answer is not understood"
        self.changes += (TaintChange(node, tainted, why, answer.done, detail),)
        return detail
