"""What a forecast of the next hour says, in words."""

from desched.model.plan import NodeOutlook, PlannedEviction


def describe_outlook(outlook: NodeOutlook) -> str:
    """For how long a node was above a target, and for how long it is expected to be."""
    before, expected = round(outlook.above_before), round(outlook.above_expected)
    text = (
        f"above a target for {before} of the last 60 minutes, and expected to be for {expected} of "
        "the next 60"
    )
    if outlook.overload_after is None:
        return text
    return f"{text}; after the plan its overload is {outlook.overload_after:.0f} minutes"


def describe_saving(eviction: PlannedEviction) -> str:
    """What a move saves, and what it costs where the pod may land; empty for other purposes."""
    if not eviction.saved_minutes:
        return ""
    saved, costs = round(eviction.saved_minutes), round(eviction.cost_minutes)
    return f"saves {saved} minutes of overload in the next hour, costs {costs} elsewhere"
