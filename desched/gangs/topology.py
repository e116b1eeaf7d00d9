"""How near the pods of a group must be to each other."""

import msgspec

from desched.model.names import LabelValue, ObjectName, Plain


class GroupTopology(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a system keeps a group: if `hard`, in one domain, else near to each other.

    For Volcano the domain is a HyperNode up to a tier, by number or name; without a tier, Volcano
    treats it as not hard. For others it has one value of the label `level`, and of those above it
    in the Topology that is named, if any. With `preferred_level`, they are also near to each other.
    """

    hard: bool
    highest_tier: int | None = None
    highest_tier_name: LabelValue = ""
    level: Plain = ""
    preferred_level: Plain = ""
    topology: ObjectName = ""

    @property
    def is_hard(self) -> bool:
        """Whether there is a domain that its pods must not leave."""
        by_tier = self.highest_tier is not None or bool(self.highest_tier_name)
        return self.hard and (by_tier or bool(self.level))

    @property
    def by_labels(self) -> bool:
        """Whether labels of nodes name its domains."""
        return bool(self.level or self.preferred_level or self.topology)
