"""HyperNodes of Volcano, and the Topologies of Kueue and KAI, as far as desched reads them."""

from msgspec import Raw

from desched.api_objects.metadata import Int32, LabelSelector, Named, Wire


class ExactMatch(Wire):
    name: str


class RegexMatch(Wire):
    pattern: str


class MemberSelector(Wire):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Wire):
    type: str
    selector: MemberSelector


class HyperNodeSpec(Wire):
    tier: Int32
    tier_name: str = ""
    members: list[Member] | None = None


class TopologyLevel(Wire):
    node_label: str


class TopologySpec(Wire):
    levels: list[TopologyLevel] | None = None


class Described(Named):
    """An object about the network."""

    spec: Raw = Raw()
