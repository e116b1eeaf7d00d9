"""What the forecast of the next hour says, in words."""

from desched.model.plan import NodeVerdict, PlannedEviction


def describe_outlook(verdict: NodeVerdict) -> str:
    """How long the node was above a target, and how long it is expected to be; empty if unknown."""
    outlook = verdict.outlook
    if outlook is None:
        return ""
    text = f"{verdict.node} was {outlook.in_words}"
    if outlook.overload_after is None:
        return text
    before, after = round(outlook.overload), round(outlook.overload_after)
    return f"{text}; by the plan, its expected overload goes from {before} to {after} minutes"


def describe_saving(eviction: PlannedEviction) -> str:
    """What the move saves and costs, as a sentence; empty if it is for something else."""
    if not eviction.saving:
        return ""
    return f"Moving {eviction.pod} to {eviction.expected_on} {eviction.saving}."
