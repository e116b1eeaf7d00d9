"""Own PromQL for load, and matchers in place of the usual ones."""

import re
from typing import Annotated

from pydantic import Field

from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, given, optional

WINDOW_PLACEHOLDER = "{window}"
_NOT_NAMES = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\{[^{}]*\}|\[[^\[\]]*\]')
_RECORDED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*:[a-zA-Z0-9_:]+")
"""Prometheus keeps colons in metric names for recording rules."""
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")


Query = Annotated[str, Field(min_length=1)]


class Queries(Section):
    """Own PromQL in place of the built-in queries.

    `{window}` stands for the window, such as `5m`.
    """

    node_cpu: Query | None = optional(
        example="avg_over_time(node:cpu_utilisation:ratio[{window}])", alias="nodeCPU"
    )
    """CPU use of each node as a share of its capacity, 0 to 1."""
    node_memory: Query | None = optional(
        example="avg_over_time(node:memory_utilisation:ratio[{window}])"
    )
    """Memory use of each node as a share of its capacity, 0 to 1."""
    pod_cpu: Query | None = optional(
        example="avg_over_time(pod:cpu_usage:cores[{window}])", alias="podCPU"
    )
    """CPU use of each pod in cores, with the labels `namespace` and `pod`."""
    pod_memory: Query | None = optional(
        example="avg_over_time(pod:memory_working_set:bytes[{window}])"
    )
    """Memory use of each pod in bytes, with the labels `namespace` and `pod`."""
    node_cpu_destination: Query | None = optional(
        example="quantile_over_time(0.95, node:cpu_utilisation:ratio[{window}])",
        alias="nodeCPUDestination",
    )
    """CPU use by which a destination is judged, as a share of capacity, for one window in
    `destinationWindows`; for example a recorded percentile."""
    node_memory_destination: Query | None = optional(
        example="quantile_over_time(0.95, node:memory_utilisation:ratio[{window}])"
    )
    """Memory use by which a destination is judged, like `nodeCPUDestination`."""


Source = Annotated[str, Field(min_length=1)]


class Sources(Section):
    """Whose series count, as matchers in PromQL, in place of the usual job names.

    Any scraped pod can expose metrics of the same names. Name a label that only the scrape
    configuration sets.
    """

    node_cpu: Source | None = optional(example='job="my-node-exporter"', alias="nodeCPU")
    """CPU of nodes."""
    node_memory: Source | None = optional(example='job="my-node-exporter"')
    """Memory of nodes."""
    node_gpu: Source | None = optional(example='job="my-dcgm-exporter"', alias="nodeGPU")
    """GPUs of nodes, by DCGM's exporter."""
    pod_cpu: Source | None = optional(
        example='job="kubelet",metrics_path="/metrics/cadvisor"', alias="podCPU"
    )
    """CPU of pods."""
    pod_memory: Source | None = optional(example='job="kubelet",metrics_path="/metrics/cadvisor"')
    """Memory of pods."""


def sources_of(section: Sources | None, notes: Notes) -> dict[str, str]:
    """The matchers by what they are of; what is wrong with them is noted."""
    for key, _, matchers in given(section):
        if not _MATCHERS.fullmatch(matchers):
            notes.refuse(
                'is not a list of label matchers; write it like job="kubelet",metrics_path='
                '"/metrics/cadvisor", without braces.',
                key,
            )
    return {name: matchers.strip() for _, name, matchers in given(section)}


def queries_of(section: Queries | None, notes: Notes) -> dict[str, str]:
    """The queries by what they are of; what is wrong with them is noted."""
    for key, _, query in given(section):
        if WINDOW_PLACEHOLDER in query:
            continue
        if _RECORDED.search(_NOT_NAMES.sub(" ", query)):
            text = "so the recorded value is read as it is for every window."
            notes.warn(f"has no {WINDOW_PLACEHOLDER}, {text}", key)
        else:
            notes.refuse(
                f'has no {WINDOW_PLACEHOLDER}; write it in place of the range, as in "rate('
                f'some_counter[{WINDOW_PLACEHOLDER}])" or "avg_over_time(some_gauge['
                f'{WINDOW_PLACEHOLDER}])". Only a recording rule may do without.',
                key,
            )
    return {name: query for _, name, query in given(section)}
