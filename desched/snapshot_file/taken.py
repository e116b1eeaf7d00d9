"""Takes a snapshot of a live cluster: the reads of a dry run, and what is kept of them."""

from pathlib import PurePath
from typing import NamedTuple

from desched import __version__
from desched.errors import ConfigurationError
from desched.model.state import State
from desched.observation import observe
from desched.planning.other_deschedulers import other_deschedulers
from desched.plugins.out_of_tree import others_in
from desched.policy_file.loading import PolicyText, parse_policy
from desched.ports import World
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.names import with_new_names
from desched.snapshot_file.redaction import labels_read, redacted


class Redaction(NamedTuple):
    """What else to keep than a plan needs, and whether to replace names."""

    all_labels: bool = False
    hash_names: bool = False


def take_snapshot(
    world: World, policy_text: PolicyText, state: State, target: str, redaction: Redaction
) -> SnapshotContent:
    """Read the cluster and its load once, and keep what a plan by the policy needs.

    Raises:
        ObservationError: the cluster or its load could not be read.
        ConfigurationError: the policy is invalid, or its plugins need names as they are.
    """
    policy = parse_policy(*policy_text).policy
    if redaction.hash_names and (others := others_in(policy)):
        raise ConfigurationError(
            f"--hash-names replaces values of labels, which plugin {others[0].name} may compare; "
            "take the snapshot without it, or by a policy without outOfTreePlugins."
        )
    snapshot = observe(world, policy)
    all_labels = redaction.all_labels or bool(others_in(policy))  # which read any
    kept = None if all_labels else labels_read(snapshot.cluster, policy)
    content = SnapshotContent(
        redacted(snapshot, kept),
        state,
        policy_text.text,
        PurePath(policy_text.source).name,
        written_by=__version__,
        target=target,
        kept_labels=kept,
        other_deschedulers=other_deschedulers(snapshot.cluster),
    )
    return with_new_names(content, policy) if redaction.hash_names else content
