"""What desched's own samples, where there is no history, say of a policy's windows, and when."""

from msgspec.structs import replace

from desched.policy.durations import duration_text
from desched.policy.policy import Policy, ResourceRule

KEPT_WINDOW_SECONDS = (120, 3600)
"""The shortest and the longest window with metrics-server: samples come every half minute, and are
kept in memory."""


def with_one_window(policy: Policy, sampled_seconds: int) -> Policy:
    """The policy with the window of samples of so long in place of all.

    Its source says so, because a plan by it may differ from that of a service.
    """
    window_seconds = sampled_seconds + policy.metrics.averaged_seconds

    def ruled(rules: tuple[ResourceRule, ...]) -> tuple[ResourceRule, ...]:
        return tuple(
            replace(
                rule,
                windows_seconds=(window_seconds,) if rule.windows_seconds else (),
                destination_windows=(),
            )
            for rule in rules
        )

    return replace(
        policy,
        source=f"{policy.source} (windows: {duration_text(window_seconds)})",
        rules=ruled(policy.rules),
        pools=tuple(replace(pool, rules=ruled(pool.rules)) for pool in policy.pools),
    )


def first_decision_seconds(policy: Policy) -> int:
    """How long a service takes samples before it knows the load of a window."""
    return policy.longest_window_seconds - policy.metrics.averaged_seconds
