"""Whether a policy can judge the load in a snapshot file: it was measured for another one."""

from collections.abc import Iterator
from pathlib import Path

from desched.errors import ConfigurationError
from desched.model.load import ClusterLoad, Measured
from desched.model.resources import Resource
from desched.model.text import on_one_line
from desched.plugins.out_of_tree import others_in
from desched.policy.durations import duration_text
from desched.policy.policy import Policy, ResourceRule
from desched.policy_file.loading import load_policy, parse_policy
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.redaction import labels_read_by
from desched.snapshot_file.storage import load_snapshot

MEASURED = (Resource.CPU, Resource.MEMORY)


def with_policy(path: Path, policy: Path | None) -> tuple[SnapshotContent, Policy]:
    """A snapshot file, and the policy to judge it by: its own unless another one is given.

    Raises:
        ConfigurationError: one of them cannot be used, or the policy needs more than the file has.
    """
    content = load_snapshot(path)
    name = on_one_line(str(path))
    own = own_policy(content, name)
    if policy is None:
        return content, own
    other = load_policy(policy).policy
    refuse_unmeasured(other, content, own, name)
    return content, other


def own_policy(content: SnapshotContent, name: str) -> Policy:
    """The policy in the snapshot file of this name.

    Raises:
        ConfigurationError: this desched cannot run the policy, or the load does not belong to it.
    """
    policy = parse_policy(content.policy_text, f"{content.policy_source} in {name}").policy
    if any(_misshapen(content.snapshot.load, policy)):
        raise ConfigurationError(
            f"{name}: this snapshot cannot be used: its load was not measured for its policy."
        )
    return policy


def refuse_unmeasured(policy: Policy, content: SnapshotContent, own: Policy, name: str) -> None:
    """Refuse a policy that needs more than the snapshot of this name has.

    Args:
        policy: another policy than the snapshot's.
        content: the content of the file.
        own: the policy of the snapshot.
        name: what messages call the file.

    Raises:
        ConfigurationError: names what the snapshot does not have.
    """
    refuse_unseen(policy, content, own, name)
    missing = next(_unmeasured(policy, own), "")
    if missing:
        raise ConfigurationError(f"{policy.source}: {name} does not have {missing}.")


def refuse_unseen(policy: Policy, content: SnapshotContent, own: Policy, name: str) -> None:
    """Refuse a policy that needs a resource or a label of which the snapshot has nothing.

    The arguments are those of `refuse_unmeasured`.

    Raises:
        ConfigurationError: names what the snapshot does not have.
    """
    in_snapshot = {Resource.PODS, *(rule.resource for rule in own.rules)}  # pods are counted
    missing = [r.resource.value for r in policy.rules if r.resource not in in_snapshot]
    if missing:
        raise ConfigurationError(
            f"{policy.source}: {name} does not have the load of {missing[0]}, which it watches; "
            f"take it anew with `desched snapshot --policy {policy.source}`."
        )
    if content.kept_labels is None:
        return
    if others := others_in(policy):
        raise ConfigurationError(
            f"{policy.source}: {name} does not have all labels, and plugin {others[0].name} may "
            "read any; `desched snapshot --all-labels` keeps all labels."
        )
    unknown = str(labels_read_by(policy).without(content.kept_labels))
    if unknown:
        raise ConfigurationError(
            f"{policy.source}: {name} does not have {unknown}, by which it selects; "
            "`desched snapshot --all-labels` keeps all labels."
        )


def _unmeasured(policy: Policy, own: Policy) -> Iterator[str]:
    """What the policy needs and a snapshot for the other one lacks."""
    for rule in policy.rules:
        if rule.resource is Resource.PODS:
            continue
        there = next(each for each in own.rules if each.resource is rule.resource)
        if (there.windows_seconds, there.destination_windows) != (
            rule.windows_seconds,
            rule.destination_windows,
        ):
            yield (
                f"the load of {rule.resource.value} over {_windows(rule)}, but over "
                f"{_windows(there)}; give both policies the same windows"
            )


def _windows(rule: ResourceRule) -> str:
    windows = "/".join(map(duration_text, rule.windows_seconds))
    further = "/".join(
        duration_text(destination_window.window_seconds)
        for destination_window in rule.destination_windows
    )
    return f"{windows} with destinationWindows {further}" if further else windows


def _misshapen(load: ClusterLoad, policy: Policy) -> Iterator[bool]:
    """Whether values do not belong to the windows of the policy, for each value."""
    cpu, memory = (len(policy.windows(resource)) for resource in MEASURED)
    for usage in load.pods.values():
        yield len(usage.cpu_millicores) not in {0, cpu}
        yield len(usage.memory_bytes) not in {0, memory}
    for devices in load.extras.values():
        yield not devices.lengths <= {len(policy.windows(devices.resource))}
    for loads in load.nodes.values():
        for resource, found in loads.items():
            if isinstance(found, Measured):
                windows = tuple(level.window_seconds for level in found.levels)
                yield windows != policy.windows(resource)
                yield len(found.pods_ratios) not in {0, len(windows)}
    for ratios in load.destination_ratios.values():
        for resource, values in ratios.items():
            yield len(values) != len(policy.destination_windows(resource))
