"""The keys of the policy about caches of models."""

from enum import StrEnum

from desched.policy_keys.section import Section, optional


class CacheAffinity(StrEnum):
    """Whether pods move only to nodes that hold their models."""

    REQUIRE = "Require"
    PREFER = "Prefer"
    IGNORE = "Ignore"


class CacheKeys(Section):
    """How close pods stay to the models that they load when they start."""

    cache_affinity: CacheAffinity | None = optional(CacheAffinity.REQUIRE.value, example="Prefer")
    """`Require`: a pod with a model or dataset in a cache of its node moves only to nodes that hold
    it, too. `Prefer`: it moves elsewhere if it cannot move to one of these, as the last choice.
    `Ignore`: caches do not count."""
