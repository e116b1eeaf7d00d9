"""A gauge that counts what has each of a fixed set of values."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from prometheus_client.core import GaugeMetricFamily


def tally(
    name: str, text: str, label: str, values: type[StrEnum], found: Iterable[StrEnum]
) -> GaugeMetricFamily:
    """One series for each value, 0 where nothing has it."""
    counts = Counter(found)
    family = GaugeMetricFamily(name, text, labels=[label])
    for value in values:
        family.add_metric([value.value], counts[value])
    return family
