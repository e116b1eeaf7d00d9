"""Chains of two moves in words."""

from desched.model.chain import Chain, ChainUnderWay
from desched.model.report import CycleReport
from desched.views.formatting import percent


def describe_chain(chain: Chain) -> str:
    """Both moves in one sentence, without a period."""
    cores = chain.first_cpu_millicores / 1000
    return (
        f"first {chain.first} from {chain.room_on} to {chain.first_to} ({cores:.1f} cores) makes "
        f"room; then {chain.second} from {chain.source} to {chain.room_on} "
        f"(\N{MINUS SIGN}{percent(chain.relief_ratio)} points)"
    )


def broken_now(report: CycleReport) -> tuple[ChainUnderWay, ...]:
    """The chains that were broken in this cycle."""
    return tuple(
        each
        for each in report.plan.chains
        if each.broken_at is not None and each.broken_at >= report.started_at
    )
