"""How long desched waits for what it began, and for how long it leaves alone what went wrong."""

import msgspec


class FollowUpRules(msgspec.Struct, frozen=True):
    """What happens after an eviction, and after one that failed.

    A replacement that is not Ready `patience_seconds` after the pod's grace period has failed.
    The replacement of a moved pod stays for `cool_down_first_seconds`. After a failure the whole
    workload stays for twice as long; each further failure doubles the time, at most to
    `cool_down_longest_seconds`. A node cools down after `node_cool_down_rounds` rounds of evictions
    did not relieve it. When `pause_workloads` workloads of several owners failed within
    `pause_within_seconds`, everything pauses; `pause_owner_label` is the label of a namespace that
    names its owner, if any. Cool-downs of nodes and pauses double as well.
    """

    patience_seconds: int = 600
    cool_down_first_seconds: int = 3600
    cool_down_longest_seconds: int = 21_600
    node_cool_down_rounds: int = 2
    node_cool_down_first_seconds: int = 1800
    node_cool_down_longest_seconds: int = 21_600
    pause_workloads: int = 3
    pause_owner_label: str = ""
    pause_within_seconds: int = 3600
    pause_first_seconds: int = 1800
    pause_longest_seconds: int = 21_600
