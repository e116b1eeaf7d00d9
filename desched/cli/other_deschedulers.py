"""Flags of other deschedulers that desched does not have, with what takes their place."""

from collections.abc import Mapping

_PLAIN_HTTP = "desched serves plain HTTP at --listen-address; omit it."
_LISTEN = "--listen-address takes its place, such as :10258, and serves plain HTTP."
_LOG = "the log goes to standard error; omit it."
_REQUESTS = "desched has no such limit for its requests to the API server; omit it."
_TRACES = "variables of OpenTelemetry take its place, such as OTEL_EXPORTER_OTLP_ENDPOINT."
_METRICS = "desched always has the same metrics; omit it."

SUBSTITUTES: Mapping[str, str] = {
    "--leader-elect-resource-namespace": (
        "--state-namespace takes its place, for the Lease and the state; by default it is the "
        "namespace of desched's pod."
    ),
    "--leader-elect-resource-name": "the Lease is always named desched; omit it.",
    "--leader-elect-resource-lock": "desched always uses a Lease; omit it.",
    "--client-connection-qps": _REQUESTS,
    "--client-connection-burst": _REQUESTS,
    "--disable-metrics": "a service always has /metrics, at --listen-address; omit it.",
    **dict.fromkeys(("--secure-port", "--bind-address", "--port", "--address"), _LISTEN),
    **dict.fromkeys(
        (
            "--cert-dir",
            "--enable-http2",
            "--http2-max-streams-per-connection",
            "--permit-address-sharing",
            "--permit-port-sharing",
            "--tls-cert-file",
            "--tls-cipher-suites",
            "--tls-min-version",
            "--tls-private-key-file",
            "--tls-sni-cert-key",
        ),
        _PLAIN_HTTP,
    ),
    "--logging-format": "--log-format takes its place; its console is their text.",
    "--vmodule": "--log-level takes its place, for the whole of desched.",
    **dict.fromkeys(
        (
            "--alsologtostderr",
            "--log-dir",
            "--log-file",
            "--log-flush-frequency",
            "--log_dir",
            "--log_file",
            "--logtostderr",
            "--stderrthreshold",
        ),
        _LOG,
    ),
    "--feature-gates": "desched has no feature gates; omit it.",
    **dict.fromkeys(
        (
            "--otel-collector-endpoint",
            "--otel-fallback-no-op-on-error",
            "--otel-sample-rate",
            "--otel-service-name",
            "--otel-trace-namespace",
            "--otel-transport-ca-cert",
        ),
        _TRACES,
    ),
    "--config": (
        "--policy takes its place; `desched policy convert FILE` writes such a policy from "
        "Koordinator's configuration."
    ),
    "--write-config-to": "desched has no such file; --policy and flags take its place.",
    **dict.fromkeys(
        (
            "--allow-metric-labels",
            "--disabled-metrics",
            "--show-hidden-metrics-for-version",
        ),
        _METRICS,
    ),
}
"""From the flag to the sentence about it."""
