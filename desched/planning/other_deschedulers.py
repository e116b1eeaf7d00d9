"""Other deschedulers in the same cluster: they and desched could undo each other's work."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from desched.model.cluster import ClusterState, Pod
from desched.policy.policy import OtherDescheduler, Policy

T = TypeVar("T")

MAKERS = {
    image: f"{maker} descheduler"
    for image, maker in (
        ("descheduler", OtherDescheduler.KUBERNETES_SIGS),
        ("descheduler-rhel8", OtherDescheduler.OPENSHIFT),
        ("descheduler-rhel9", OtherDescheduler.OPENSHIFT),
        ("koord-descheduler", OtherDescheduler.KOORDINATOR),
        ("ose-descheduler", OtherDescheduler.OPENSHIFT),
        ("vc-descheduler", OtherDescheduler.VOLCANO),
        ("volcano-descheduler", OtherDescheduler.VOLCANO),
    )
}
"""Products by the last part of the image name, or by the value of a name label."""

NAME_LABELS = ("app.kubernetes.io/name", "app", "k8s-app", "koord-app")


def other_deschedulers(cluster: ClusterState) -> tuple[str, ...]:
    """List other deschedulers, such as `Volcano descheduler in volcano-system`, sorted.

    Dry runs of other deschedulers count, because they look the same.
    """
    return products_in(cluster, MAKERS)


class Others(NamedTuple):
    """Other deschedulers: those to choose from, and those that run beside desched on purpose."""

    unexpected: tuple[str, ...]
    acknowledged: tuple[str, ...]


def split_others(seen: Iterable[str], policy: Policy) -> Others:
    """Divide what `other_deschedulers` found by what the policy acknowledges."""
    makers = tuple(f"{maker} descheduler in " for maker in policy.acknowledged_deschedulers)
    others = tuple(seen)
    named = tuple(other for other in others if other.startswith(makers))
    return Others(tuple(other for other in others if other not in named), named)


def products_in(cluster: ClusterState, products: Mapping[str, str]) -> tuple[str, ...]:
    """List running products, such as `Karpenter in kube-system`, sorted.

    `products` has their names by the last part of an image's name, or by the value of a name label.
    Finished pods of Jobs count, because the pods of a CronJob run only for moments. Labels count
    only if no image matches.
    """
    # Pods of a workload share these objects, so each distinct object is checked only once.
    classes = _distinct(pod.scheduling for pod in cluster.pods)
    labels = _distinct(pod.labels for pod in cluster.pods)
    by_image = {
        key: _named(map(_last_part, scheduling.images), products)
        for key, scheduling in classes.items()
    }
    by_label = {key: _named(map(each.get, NAME_LABELS), products) for key, each in labels.items()}
    if not any(by_image.values()) and not any(by_label.values()):
        return ()
    products_found = set()
    for pod in cluster.pods:
        product = by_image[id(pod.scheduling)] or by_label[id(pod.labels)]
        if product and _is_at_work(pod) and not cluster.runs_desched(pod):
            products_found.add(f"{product} in {pod.namespace}")
    return tuple(sorted(products_found))


def _distinct(values: Iterable[T]) -> dict[int, T]:
    """The different objects by their id."""
    listed = list(values)
    return dict(zip(map(id, listed), listed, strict=True))


def _named(names: Iterable[str | None], products: Mapping[str, str]) -> str:
    return next((products[name] for name in names if name and name in products), "")


def _last_part(image: str) -> str:
    """The image's name without its registry, path, tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _is_at_work(pod: Pod) -> bool:
    return pod.of_job or not pod.finished  # that of a CronJob works again
