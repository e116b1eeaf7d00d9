"""How long desched waits for what it began, and for how long it leaves alone what went wrong."""

import msgspec


class FollowUpRules(msgspec.Struct, frozen=True):
    """What happens after an eviction, and after one that failed.

    A replacement that is not Ready `patience_seconds` after the pod's grace period has failed.
    After each eviction its workload cools down: for `cool_down_first_seconds` if it went well, for
    twice as long with each that failed, and at most for `cool_down_longest_seconds`. A node that
    `parking_rounds` rounds of evictions did not cool is parked. When `pause_workloads` workloads
    failed within `pause_within_seconds`, everything pauses. Parking and pausing double as well.
    """

    patience_seconds: int = 600
    cool_down_first_seconds: int = 3600
    cool_down_longest_seconds: int = 21_600
    parking_rounds: int = 2
    parking_first_seconds: int = 1800
    parking_longest_seconds: int = 21_600
    pause_workloads: int = 3
    pause_within_seconds: int = 3600
    pause_first_seconds: int = 1800
    pause_longest_seconds: int = 21_600
