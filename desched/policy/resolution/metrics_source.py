"""Where load comes from: the address, own queries and matchers of LoadAware."""

import re
from urllib.parse import urlsplit

from desched.policy.document.metrics import Metrics, Queries, Sources
from desched.policy.document.sections import names
from desched.policy.policy import MetricsSource
from desched.policy.reading.problems import Notes

WINDOW_PLACEHOLDER = "{window}"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NOT_NAMES = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\{[^{}]*\}|\[[^\[\]]*\]')
_RECORDED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*:[a-zA-Z0-9_:]+")
"""Prometheus keeps colons in metric names for recording rules."""
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")


def metrics_source(metrics: Metrics, notes: Notes) -> MetricsSource:
    """The source as the adapter needs it; what is wrong with it is noted."""
    if problem := _address_problem(metrics.address or ""):
        notes.refuse(problem, "address")
    matchers = dict(sorted((metrics.matchers or {}).items()))
    for label in matchers:
        if not _LABEL_NAME.fullmatch(label) or label == "__name__":
            text = "is not the name of a label; letters, digits and underscores are allowed."
            notes.refuse(text, "matchers", label)
    return MetricsSource(
        address=metrics.address or "",
        matchers=matchers,
        queries=_queries(metrics.queries, notes.below("queries")),
        sources=_sources(metrics.sources, notes.below("sources")),
    )


def _address_problem(address: str) -> str:
    """What is wrong with the URL, empty if nothing is; none at all is fine."""
    example = 'write for example "http://prometheus-server.monitoring.svc:80"'
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    found = re.split("[?#]", address)[0][:80]  # what follows may be a token
    if "@" in address:  # also where a special character in the password makes it no URL
        return (
            "holds a user name or password; everyone who may read the ConfigMap could read it: "
            "remove it here and give credentials to desched by environment or file."
        )
    if parts.scheme not in {"http", "https"} or not host or re.search(r"\s", address):
        return f'found "{found}", which is not an http or https URL; {example}.'
    if parts.query or parts.fragment:
        return f'found "{found}", a URL without "?" and "#" is allowed; {example}.'
    return ""


def _sources(section: Sources | None, notes: Notes) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, name in names(Sources).items():
        matchers: str | None = getattr(section, name, None)
        if matchers is None:
            continue
        if not _MATCHERS.fullmatch(matchers):
            notes.refuse(
                'is not a list of label matchers; write it like job="kubelet",metrics_path='
                '"/metrics/cadvisor", without braces.',
                key,
            )
        found[name] = matchers.strip()
    return found


def _queries(section: Queries | None, notes: Notes) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, name in names(Queries).items():
        query: str | None = getattr(section, name, None)
        if query is None:
            continue
        found[name] = query
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
    return found
