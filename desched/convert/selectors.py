"""Label selectors of other deschedulers."""

from typing import Any

from pydantic import ValidationError

from desched.convert.original import OriginalSection
from desched.policy_keys.label_syntax import parse_selector
from desched.policy_keys.values import LabelSelectorSection

_WORDS = {"In": "in", "NotIn": "notin"}


def selector_text(section: OriginalSection, key: str) -> str | None:
    """The node selector at the key as one text; it may be a text or a mapping there."""
    value = section.value(key)
    if value is None:
        return None
    text = value if isinstance(value, str) else _as_text(label_selector(section, key) or {})
    try:
        parse_selector(text)
    except ValueError as error:
        section.refuse(key, f"is not a label selector: {error}; correct it first.")
        return None
    return text or None


def label_selector(section: OriginalSection, key: str) -> dict[str, Any] | None:
    """The label selector at the key, as Kubernetes writes it."""
    value = section.value(key)
    if not value:
        return None
    try:
        LabelSelectorSection.model_validate(value, strict=False)
    except ValidationError:
        section.refuse(key, "is not a label selector that desched understands; correct it first.")
        return None
    return dict(value)


def both(*texts: str | None) -> str | None:
    """The selector of what all of these select."""
    return ",".join(text for text in texts if text) or None


def _as_text(selector: dict[str, Any]) -> str:
    conditions = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for requirement in selector.get("matchExpressions") or ():
        key, operator, values = (
            requirement["key"],
            requirement["operator"],
            requirement.get("values") or (),
        )
        if operator in _WORDS:
            conditions.append(f"{key} {_WORDS[operator]} ({', '.join(values)})")
        else:
            conditions.append(key if operator == "Exists" else f"!{key}")
    return ",".join(conditions)
