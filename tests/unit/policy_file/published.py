"""The published policy as a value to vary, and the three ways to look at what comes of it."""

import copy
import json
from typing import Any

import pytest
import yaml

from desched.errors import ConfigurationError
from desched.policy.policy import Policy
from desched.policy_file.loading import LoadedPolicy, parse_policy
from tests.repository import ROOT

POLICIES = ROOT / "policies"
PUBLISHED_TEXT = (POLICIES / "volcano-published.yaml").read_text().replace("- default", "- batch")
"""With another namespace excluded: that of the original has a warning of its own."""
PUBLISHED: dict[str, Any] = yaml.safe_load(yaml.safe_load(PUBLISHED_TEXT)["data"]["policy.yaml"])
REMOVED = object()


def _args(document: dict[str, Any], plugin: str) -> dict[str, Any]:
    configs = document["profiles"][0]["pluginConfig"]
    return next(config["args"] for config in configs if config["name"] == plugin)


def _changed(target: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is REMOVED:
            del target[key]
        else:
            target[key] = value


def published(
    *,
    load_aware: dict[str, Any] | None = None,
    evictor: dict[str, Any] | None = None,
    **top_level: Any,
) -> dict[str, Any]:
    """The published document with some keys of its sections replaced, added or REMOVED."""
    document = copy.deepcopy(PUBLISHED)
    _changed(_args(document, "LoadAware"), load_aware or {})
    _changed(_args(document, "DefaultEvictor"), evictor or {})
    _changed(document, top_level)
    return document


def load(document: Any) -> LoadedPolicy:
    return parse_policy(json.dumps(document), "policy.yaml")


def resolved(**changes: Any) -> Policy:
    return load(published(**changes)).policy


def warnings(**changes: Any) -> str:
    return "\n".join(load(published(**changes)).warnings)


def refusal(document: Any) -> str:
    """Why the document, a value or a text, is refused."""
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(ConfigurationError) as caught:
        parse_policy(text, "policy.yaml")
    return str(caught.value)
