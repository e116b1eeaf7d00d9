"""Amounts of compute resources, and Kubernetes quantities as exact integers."""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from functools import lru_cache

import msgspec

from desched.model.bounds import LARGEST_AMOUNT, Count
from desched.model.names import Plain


class Resource(StrEnum):
    """A resource that can be overloaded, in the order of relief."""

    MEMORY = "memory"
    CPU = "cpu"
    GPU = "gpu"
    PODS = "pods"


DEVICES = "resource.k8s.io/"
"""The prefix of the devices of ResourceClaims among amounts: `resource.k8s.io/DRIVER[/TYPE]`."""


class Amounts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Amounts of resources, requested or allocatable; never negative.

    `extended` has all other countable resources (devices, hugepages-2Mi in bytes, …), sorted by
    name.
    """

    cpu_millicores: Count = 0
    memory_bytes: Count = 0
    ephemeral_storage_bytes: Count = 0
    pods: Count = 0
    extended: tuple[tuple[Plain, Count], ...] = ()

    def raised_to(self, least: "Amounts") -> "Amounts":
        """The larger amount of each resource; the same object if it is already these."""
        extended = dict(self.extended)
        for name, amount in least.extended:
            extended[name] = max(amount, extended.get(name, 0))
        raised = Amounts(
            max(self.cpu_millicores, least.cpu_millicores),
            max(self.memory_bytes, least.memory_bytes),
            max(self.ephemeral_storage_bytes, least.ephemeral_storage_bytes),
            max(self.pods, least.pods),
            tuple(sorted(extended.items())),
        )
        return self if raised == self else raised


_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SUFFIXES = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(_DECIMAL_SUFFIXES, -3)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(_BINARY_SUFFIXES, 1)},
}

_LONGEST_QUANTITY = 64  # characters; no meaningful quantity is longer
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?P<suffix>[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,3})"
)
"""The API's grammar, with a limit for exponents: to expand a longer one would take minutes."""


def exact_quantity(text: str) -> Decimal:
    """The value of a Kubernetes quantity, not rounded.

    Raises:
        ValueError: the text is not a quantity.
    """
    if len(text) > _LONGEST_QUANTITY:
        raise ValueError(f"quantity of {len(text)} characters")
    parts = _QUANTITY.fullmatch(text)
    if parts is None:
        raise ValueError(f"not a quantity: {text!r}")
    suffix = parts["suffix"]
    return Decimal(parts["number"]) * (_SUFFIXES.get(suffix) or Decimal(f"1{suffix}"))


@lru_cache(maxsize=65_536)
def quantity(text: str, *, per_unit: int = 1, round_up: bool = True) -> int:
    """The integer value of a Kubernetes quantity such as `250m`, `1.5Gi` or `1e3`.

    Args:
        text: the quantity in the API's format.
        per_unit: 1000 converts cores to millicores.
        round_up: true for requests, false for free space.

    Raises:
        ValueError: the text is not a quantity.
    """
    scaled = exact_quantity(text) * per_unit
    whole = int(scaled.to_integral_value(ROUND_CEILING if round_up else ROUND_FLOOR))
    return max(-LARGEST_AMOUNT, min(whole, LARGEST_AMOUNT))


def basic(amounts: Amounts) -> tuple[int, int, int, int]:
    """The amounts of the basic resources, CPU, memory, ephemeral storage and pods."""
    return (
        amounts.cpu_millicores,
        amounts.memory_bytes,
        amounts.ephemeral_storage_bytes,
        amounts.pods,
    )
