"""What is said of each reason; the texts are in reasons.toml here and in folders of plugins."""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources

import msgspec

from desched.model.plan import NodeVerdict, Unsteered
from desched.wording.formatting import count

GRANT_STEERING = "kubectl apply -k deploy/overlays/evict"
OTHER_DESCHEDULERS = (
    "Another descheduler runs in this cluster: {others}. They undo each other's work; choose one."
)


class ReasonText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a reason; `remedy` and `ends` are empty where there is nothing to say."""

    means: str
    remedy: str = ""
    ends: str = ""


@cache
def texts() -> Mapping[str, Mapping[str, ReasonText]]:
    """The texts by the name of the enumeration and by value.

    Reasons of different kinds share values, and members with the same value are equal.
    """
    folders = resources.files("desched.wording"), *resources.files("desched.plugins").iterdir()
    sources = (folder.joinpath("reasons.toml") for folder in folders)
    found: dict[str, dict[str, ReasonText]] = {}
    for source in sources:
        if source.is_file():
            text = tomllib.loads(source.read_text("utf-8"))
            found |= msgspec.convert(text, dict[str, dict[str, ReasonText]])
    return found


def text_of(reason: StrEnum) -> ReasonText:
    """The texts of a reason of any kind."""
    return texts()[type(reason).__name__][reason.value]


def sentence_of(reason: StrEnum) -> str:
    """What a reason of any kind means."""
    return text_of(reason).means


def describe(reason: StrEnum | None, detail: str) -> str:
    """The sentence for a reason, with its detail in brackets; empty without a reason."""
    if reason is None:
        return ""
    sentence = sentence_of(reason)
    return f"{sentence.removesuffix('.')} ({detail})." if detail else sentence


def describe_outlook(verdict: NodeVerdict) -> str:
    """How long the node was above a target, and how long it is expected to be; empty if unknown."""
    outlook = verdict.outlook
    if outlook is None:
        return ""
    text = f"{verdict.node} was {outlook.in_words}"
    if outlook.overload_after is not None:
        before, after = round(outlook.overload), round(outlook.overload_after)
        text += f"; by the plan, its expected overload goes from {before} to {after} minutes"
    return f"{text}."


def describe_unsteered(unsteered: Unsteered) -> str:
    """What the missing right to set soft taints costs, and how to grant it."""
    pods, nodes = count(unsteered.pods, "pod"), count(unsteered.nodes, "node")
    return f"{pods} on {nodes} could move with soft taints; allow them with `{GRANT_STEERING}`."
