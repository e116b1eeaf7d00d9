"""Whether soft taints may keep replacements away from nodes where they would do harm."""

from typing import Annotated, Literal

from pydantic import BeforeValidator

from desched.policy.policy import Share, Steering, SteeringRules


def _off_is_a_word(value: object) -> object:
    """YAML reads a bare `Off` as false."""
    return Steering.OFF.value if value is False else value


SteeringMode = Annotated[
    Literal["Off", "WhenNeeded", "Always"],
    BeforeValidator(_off_is_a_word),
]
"""One of the words of `Steering`."""

DEFAULT_MOST_NODES = "30%"
"""As it is written in a policy; `SteeringRules` has it as a share."""


def steering_rules(mode: str | None, most_nodes: int | Share | None) -> SteeringRules:
    """What the keys stand for, with defaults for what they leave open."""
    rules = SteeringRules() if mode is None else SteeringRules(Steering(mode))
    return rules if most_nodes is None else SteeringRules(rules.mode, most_nodes)
