"""Which scrape jobs let pods of any namespace write any label."""

import pytest

from desched.adapters.prometheus.scrape_jobs import jobs_of_strangers
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.adapters.prometheus.test_measures import good, look


def job(name: str, rest: str) -> str:
    return f"- job_name: {name}\n  {rest}\n"


OPEN = "honor_labels: true\n  kubernetes_sd_configs: [{role: pod}]"
CONFIGURATION = "global: {scrape_interval: 1m}\nscrape_configs:\n" + "".join(
    (
        job("kubernetes-pods", OPEN),
        job("kubernetes-service-endpoints", OPEN.replace("pod", "endpoints")),
        job("closed", OPEN.replace("pod", "pod, namespaces: {names: [monitoring]}")),
        job("own", OPEN.replace("pod", "pod, namespaces: {own_namespace: true}")),
        job("nodes", OPEN.replace("pod", "node")),
        job("overwrites", OPEN.replace("true", "false")),
        job("static", "honor_labels: true\n  static_configs: [{targets: [x]}]"),
    )
)
FOUND = ("kubernetes-pods", "kubernetes-service-endpoints")


def test_those_are_found_whose_targets_are_of_any_namespace_and_keep_their_labels() -> None:
    assert jobs_of_strangers(CONFIGURATION) == FOUND


@pytest.mark.parametrize(
    "text", ["", "a: [", "- x", "scrape_configs: 3", "scrape_configs: [x, {honor_labels: true}]"]
)
def test_what_is_not_understood_counts_for_nothing(text: str) -> None:
    assert jobs_of_strangers(text) == ()


def test_they_are_read_where_prometheus_shows_its_configuration(fake: FakePrometheus) -> None:
    assert look(fake, good()).jobs_of_strangers is None
    fake.configuration = CONFIGURATION
    assert look(fake, good()).jobs_of_strangers == FOUND
