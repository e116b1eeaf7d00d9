"""Prometheus is found by the labels that the known stacks give its Service."""

from typing import Any

import pytest

from desched.adapters.prometheus.stacks import (
    POLICY_STACKS,
    STACKS,
    FoundService,
    find_prometheus,
    service_behind,
    service_of_stack,
)
from desched.errors import ConfigurationError, ObservationError
from desched.model.measures import ServiceAddress, ServicePort
from desched.policy.policy import MetricsSource, PrometheusStack

NAME, COMPONENT, PART_OF = (
    f"app.kubernetes.io/{label}" for label in ("name", "component", "part-of")
)
WEB = ServicePort(9090, "web")
CHART = {NAME: "prometheus", COMPONENT: "server", PART_OF: "prometheus"}
OPERATED = {"operated-prometheus": "true"}


def service(
    labels: dict[str, str], *ports: ServicePort, name: str = "svc", namespace: str = "mon"
) -> ServiceAddress:
    return ServiceAddress(namespace, name, labels, ports)


@pytest.mark.parametrize(
    ("labels", "ports", "stack", "url", "pod_port"),
    [
        (
            {NAME: "prometheus", COMPONENT: "prometheus", PART_OF: "kube-prometheus"},
            [WEB, ServicePort(8080, "reloader-web")],
            "kube-prometheus",
            "http://svc.mon.svc:9090",
            9090,
        ),
        (
            {"app": "kube-prometheus-stack-prometheus", "self-monitor": "true"},
            [ServicePort(8080, "reloader-web"), ServicePort(9090, "http-web", 9090)],
            "kube-prometheus-stack",
            "http://svc.mon.svc:9090",
            9090,
        ),
        (CHART, [ServicePort(80, "http", 9090)], "prometheus chart", "http://svc.mon.svc:80", 9090),
        (
            {"app": "prometheus", "component": "server", "heritage": "Helm"},
            [ServicePort(80, "http", 9090)],
            "prometheus chart",
            "http://svc.mon.svc:80",
            9090,
        ),
        (
            {NAME: "thanos-query", COMPONENT: "query-layer", PART_OF: "openshift-monitoring"},
            [ServicePort(9091, "web"), ServicePort(9092, "tenancy")],
            "OpenShift",
            "https://svc.mon.svc:9091",
            9091,
        ),
        (
            {NAME: "victoria-metrics-single", "app": "server"},
            [ServicePort(8428, "http")],
            "VictoriaMetrics",
            "http://svc.mon.svc:8428",
            8428,
        ),
        (
            {NAME: "vmsingle", "managed-by": "vm-operator"},
            [ServicePort(8429, "http", 8429)],
            "VictoriaMetrics",
            "http://svc.mon.svc:8429",
            8429,
        ),
        (
            {NAME: "victoria-metrics-cluster", "app": "vmselect"},
            [ServicePort(8481, "http")],
            "VictoriaMetrics",
            "http://svc.mon.svc:8481/select/0/prometheus",
            8481,
        ),
        (
            {NAME: "thanos-query", COMPONENT: "query-layer"},
            [ServicePort(10901, "grpc", 10901), ServicePort(9090, "http", 9090)],
            "Thanos",
            "http://svc.mon.svc:9090",
            9090,
        ),
        (
            {NAME: "thanos", COMPONENT: "query"},
            [ServicePort(9090, "http", 10902)],
            "Thanos",
            "http://svc.mon.svc:9090",
            10902,
        ),
        (
            {NAME: "mimir", COMPONENT: "gateway"},
            [ServicePort(80, "http-metrics")],
            "Mimir",
            "http://svc.mon.svc:80/prometheus",
            8080,
        ),
        (OPERATED, [WEB], "Prometheus Operator", "http://svc.mon.svc:9090", 9090),
    ],
)
def test_each_stack_is_known_by_its_labels(
    labels: dict[str, str], ports: list[ServicePort], stack: str, url: str, pod_port: int
) -> None:
    (found,) = find_prometheus([service({**labels, "more": "labels"}, *ports)])
    assert (found.stack, found.url, found.pod_port) == (stack, url, pod_port)


@pytest.mark.parametrize(
    ("labels", "ports"),
    [
        ({}, [WEB]),
        ({NAME: "grafana"}, [WEB]),
        ({NAME: "prometheus", COMPONENT: "alertmanager"}, [WEB]),
        ({NAME: "mimir", COMPONENT: "distributor"}, [WEB]),
        ({"app": "kube-prometheus-stack-thanos-discovery"}, [WEB]),
        (CHART, []),
    ],
)
def test_what_answers_no_queries_is_not_found(
    labels: dict[str, str], ports: list[ServicePort]
) -> None:
    assert find_prometheus([service(labels, *ports)]) == ()


def test_the_most_local_stack_comes_first_whatever_the_order() -> None:
    services = [
        service({NAME: "mimir", COMPONENT: "gateway"}, WEB, name="mimir"),
        service({NAME: "thanos-query"}, WEB, name="thanos"),
        service(CHART, WEB, name="chart-b"),
        service(CHART, WEB, name="chart-a"),
    ]
    expected = ["chart-a", "chart-b", "thanos", "mimir"]
    assert [found.name for found in find_prometheus(services)] == expected
    assert [found.name for found in find_prometheus(services[::-1])] == expected


def test_the_operators_own_service_counts_only_where_there_is_no_other() -> None:
    kps = {"app": "kube-prometheus-stack-prometheus"}
    services = [
        service(OPERATED, WEB, name="prometheus-operated"),
        service(kps, WEB, name="kps"),
        service(OPERATED, WEB, name="prometheus-operated", namespace="team"),
    ]
    assert [(f.namespace, f.name) for f in find_prometheus(services)] == [
        ("mon", "kps"),
        ("team", "prometheus-operated"),
    ]


def test_the_steps_to_reach_it_from_outside_are_commands() -> None:
    (found,) = find_prometheus([service(CHART, ServicePort(80, "http", 9090), name="server")])
    assert found.steps == (
        "run `kubectl --namespace mon port-forward service/server 9090:80` and pass "
        "`--prometheus-url http://127.0.0.1:9090`"
    )


def test_what_needs_credentials_says_so() -> None:
    labels = {NAME: "thanos-query", PART_OF: "openshift-monitoring"}
    (found,) = find_prometheus([service(labels, ServicePort(9091, "web"))])
    assert "--prometheus-bearer-token-file" in found.needs


@pytest.mark.parametrize(
    ("address", "is_it"),
    [
        ("http://server.mon.svc:80", True),
        ("http://server.mon", True),
        ("http://server.mon.svc.cluster.local:80/", True),
        ("http://server.other.svc:80", False),
        ("http://127.0.0.1:9090", False),
    ],
)
def test_the_service_behind_an_address_is_known(address: str, *, is_it: bool) -> None:
    services: Any = find_prometheus([service(CHART, WEB, name="server")])
    assert (service_behind(address, services) == services[0]) is is_it


THANOS = {NAME: "thanos-query", COMPONENT: "query-layer"}


def chosen(*services: ServiceAddress, stack: PrometheusStack) -> FoundService:
    source = MetricsSource("", stack=stack, namespace="mon")
    return service_of_stack(find_prometheus(services), source)


def test_the_policys_stack_is_taken_from_the_policys_namespace() -> None:
    ours = service(CHART, WEB, name="ours")
    forged = service(CHART, WEB, name="forged", namespace="tenant")
    other = service(THANOS, WEB, name="thanos")
    found = chosen(forged, other, ours, stack=PrometheusStack.PROMETHEUS_CHART)
    assert (found.namespace, found.name) == ("mon", "ours")


@pytest.mark.parametrize("stack", [PrometheusStack.PROMETHEUS_CHART, PrometheusStack.AUTO])
def test_a_tenants_service_is_not_taken_even_if_it_is_the_only_one(stack: PrometheusStack) -> None:
    forged = service(CHART, WEB, namespace="tenant")
    with pytest.raises(ObservationError, match="in namespace mon;") as caught:
        chosen(forged, stack=stack)
    assert "http://svc.tenant.svc:9090" in str(caught.value)


def test_of_several_services_none_is_taken() -> None:
    services = [service(CHART, WEB, name="a"), service(THANOS, WEB, name="b")]
    assert chosen(*services, stack=PrometheusStack.THANOS).name == "b"
    with pytest.raises(ConfigurationError, match=r"a\.mon\.svc.*b\.mon\.svc.*metrics\.address"):
        chosen(*services, stack=PrometheusStack.AUTO)


def test_every_stack_of_a_policy_is_in_the_table() -> None:
    for stack in PrometheusStack:
        with pytest.raises(ObservationError, match="No Service of"):
            chosen(stack=stack)
    known = {each.name for each in STACKS}
    assert set(POLICY_STACKS.values()) <= known
    assert set(POLICY_STACKS) == set(PrometheusStack) - {
        PrometheusStack.AUTO,
        PrometheusStack.GMP,
        PrometheusStack.AMP,
    }
