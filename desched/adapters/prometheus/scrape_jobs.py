"""The scrape jobs by which a pod of any namespace can write any label."""

from collections.abc import Iterator
from typing import Any

import yaml

_OF_NAMESPACES = frozenset({"pod", "service", "endpoints", "endpointslice"})
"""The roles of Kubernetes' discovery whose targets belong to namespaces."""


def jobs_of_strangers(configuration: str) -> tuple[str, ...]:
    """The jobs with `honor_labels` whose discovery is not limited to namespaces, by name.

    `configuration` is that of Prometheus, in YAML. What is not understood counts for nothing.
    """
    try:
        read = yaml.safe_load(configuration)
    except (yaml.YAMLError, RecursionError):
        return ()
    jobs = read.get("scrape_configs") if isinstance(read, dict) else None
    return tuple(sorted({str(job.get("job_name", "")) for job in _dicts(jobs) if _is_open(job)}))


def _is_open(job: dict[str, Any]) -> bool:
    return job.get("honor_labels") is True and any(
        discovery.get("role") in _OF_NAMESPACES and not _namespaces(discovery)
        for discovery in _dicts(job.get("kubernetes_sd_configs"))
    )


def _namespaces(discovery: dict[str, Any]) -> bool:
    """Whether only the targets of some namespaces are discovered."""
    namespaces = discovery.get("namespaces")
    return isinstance(namespaces, dict) and bool(
        namespaces.get("names") or namespaces.get("own_namespace")
    )


def _dicts(entries: object) -> Iterator[dict[str, Any]]:
    yield from (
        entry for entry in (entries if isinstance(entries, list) else ()) if type(entry) is dict
    )
