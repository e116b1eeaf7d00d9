"""The recommended policy of a search as a file: today's with its changes and their reasons."""

from desched.policy.conversion.yaml_text import yaml_text
from desched.policy.reading.findings import KeyPath
from desched.views.tuning import tuning_view
from desched.whatif.tuning.figures import Tuned
from desched.whatif.tuning.space import Space, Values


def policy_text(space: Space, values: Values, found: Tuned) -> str:
    """The policy with these values as YAML; only its changes have comments."""
    view = tuning_view(found)
    comments: dict[KeyPath, list[str]] = {}
    for key in values:
        for change, reason in view.changes:
            if change.key == key or change.key.startswith(f"{key}."):
                path = space.path_of(key)
                comments.setdefault(path, []).append(f"{change.line}; {reason}.")
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (found.started_at, found.ended_at))
    header = (
        f"Made from {found.policy} by desched tune with the past from {began} to {ended} UTC.",
        *view.summary,
    )
    return yaml_text(space.document(values), comments, header)
