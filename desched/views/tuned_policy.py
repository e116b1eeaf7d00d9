"""The recommended policy of a search as a file: today's with its changes, after their reasons."""

from collections.abc import Sequence

from desched.policy.conversion.yaml_text import comment_text, yaml_text
from desched.policy.difference import Difference
from desched.views.tuned_clusters import clusters_view
from desched.views.tuning import tuning_view
from desched.whatif.tuning.figures import ClustersTuned, Tuned
from desched.whatif.tuning.space import Space, Values


def policy_text(space: Space, values: Values, found: Tuned) -> str:
    """The policy with these values as YAML, after comments on its changes."""
    view = tuning_view(found)
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (found.started_at, found.ended_at))
    made = f"Made from {found.policy} by desched tune with the past from {began} to {ended} UTC."
    return _text(space, values, view.changes, (made, *view.summary))


def common_policy_text(space: Space, values: Values, found: ClustersTuned) -> str:
    """The same for the policy that clusters have in common."""
    view = clusters_view(found)
    names = ", ".join(each.cluster for each in found.clusters)
    made = f"Made from {found.policy} by desched tune for the clusters {names}."
    return _text(space, values, view.changes, (made, *view.summary))


def _text(
    space: Space,
    values: Values,
    changes: Sequence[tuple[Difference, str]],
    header: Sequence[str],
) -> str:
    header = (*header, *(f"{change.line}; {reason}." for change, reason in changes))
    text = space.text(values)
    if text is None:
        left = f"{space.today.source} could not be edited in place, so its comments are not here."
        return yaml_text(space.document(values), {}, (*header, left))
    return comment_text(header) + text
