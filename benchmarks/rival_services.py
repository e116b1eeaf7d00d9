"""Other deschedulers as users run them: `--kubernetes-sigs BINARY` of `benchmarks.real_day`.

Their binaries are not part of the project.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real_hours import Service, Times
from desched.model.resources import Resource
from desched.policy.policy import Policy
from tests.controlplane.process import free_ports
from tests.controlplane.sites import Sites

WINDOW_SECONDS = 300
SECRET = {"namespace": "kube-system", "name": "prometheus"}
IN_A_POD = """
account=/var/run/secrets/kubernetes.io/serviceaccount
mount -t tmpfs none /var/run && mkdir -p $account && cp "$1" $account/ca.crt
shift
exec "$@"
"""
"""Lets a program find the file that the kubelet mounts, in a mount namespace of its own."""


def kubernetes_sigs(binary: Path, policy: Policy) -> Service:
    """The descheduler of kubernetes-sigs: LowNodeUtilization with Prometheus, else by its defaults.

    As for its twin in `benchmarks.baselines`, the target and the highest load of destinations are
    those of the policy, and its one number for a node is the larger of CPU and memory, memory
    scaled so that both have the same target.
    """
    target = {rule.resource: 100 * rule.target_ratio for rule in policy.rules}
    margin = 100 * next(r.ceiling_margin_ratio for r in policy.rules if r.resource is Resource.CPU)
    cpu, memory = target[Resource.CPU], target[Resource.MEMORY]

    def command(sites: Sites, times: Times) -> Sequence[str | Path]:
        window = f"[{WINDOW_SECONDS * 1000 // times.speed}ms]"
        of_cpu = f'1 - avg by (node) (rate(node_cpu_seconds_total{{mode="idle"}}{window}))'
        free = f"avg by (node) (avg_over_time(node_memory_MemAvailable_bytes{window}))"
        total = "avg by (node) (node_memory_MemTotal_bytes)"
        of_memory = f"{cpu / memory} * (1 - {free} / {total})"
        larger = f"(({of_cpu}) > ({of_memory})) or ({of_memory})"
        query = f'label_replace(clamp({larger}, 0, 1), "instance", "$1", "node", "(.*)")'
        usage = {"source": "Prometheus", "prometheus": {"query": query}}
        args = {
            "metricsUtilization": usage,
            "thresholds": {"MetricResource": cpu - margin},
            "targetThresholds": {"MetricResource": cpu},
        }
        token = {"secretReference": SECRET}
        document = {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "metricsProviders": [
                {
                    "source": "Prometheus",
                    "prometheus": {"url": sites.prometheus.url, "authToken": token},
                }
            ],
            "profiles": [
                {
                    "name": "load",
                    "pluginConfig": [
                        {"name": "DefaultEvictor", "args": {}},
                        {"name": "LowNodeUtilization", "args": args},
                    ],
                    "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
                }
            ],
        }
        file = sites.directory / "policy.json"
        file.write_text(json.dumps(document))
        sites.plane.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": SECRET,
                "stringData": {"prometheusAuthToken": "none"},
            }
        )
        (port,) = free_ports(1)
        return [
            *("unshare", "--map-root-user", "--mount", "sh", "-c", IN_A_POD, "sh"),
            *(
                sites.plane.ca_file,
                binary,
                "--policy-config-file",
                file,
                "--descheduling-interval",
                times.interval,
            ),
            *("--kubeconfig", sites.plane.admin_kubeconfig, "--bind-address", "127.0.0.1"),
            *("--secure-port", str(port), "--cert-dir", sites.directory / "certificates"),
        ]

    return command
