import pytest

from desched.adapters.prometheus.port_forward import (
    InClusterService,
    in_cluster_service,
    port_forward_hint,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "http://prometheus-server.kube-system.svc.cluster.local:80",
            InClusterService("kube-system", "prometheus-server", 80, "http", ""),
        ),
        ("http://prom.mon.svc:9090/x/", InClusterService("mon", "prom", 9090, "http", "/x")),
        ("https://prom.mon.svc.corp.example", InClusterService("mon", "prom", 443, "https", "")),
        ("http://prom.mon.svc", InClusterService("mon", "prom", 80, "http", "")),
        ("http://prom.mon:9090", InClusterService("mon", "prom", 9090, "http", "")),
    ],
)
def test_a_service_is_recognised_by_its_name(url: str, expected: InClusterService) -> None:
    assert in_cluster_service(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://prometheus:9090",
        "http://10.0.0.5:9090",
        "http://prometheus.example.com",
        "http://prom.mon.svc:99999",
        "ftp://prom.mon.svc",
        "nonsense",
        "",
    ],
)
def test_other_addresses_are_no_services(url: str) -> None:
    assert in_cluster_service(url) is None
    assert port_forward_hint(url) == ""


def test_the_hint_is_a_line_to_copy_and_the_url_to_use() -> None:
    hint = port_forward_hint("http://prom.mon.svc:80/base")

    assert "`kubectl --namespace mon port-forward service/prom 9090:80`" in hint
    assert "`--prometheus-url http://127.0.0.1:9090/base`" in hint
