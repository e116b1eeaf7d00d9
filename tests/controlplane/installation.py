"""Desched as users have it: shipped rights, a policy file, a process of its own."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.permission import has_right
from desched.api_objects.access import Access
from desched.cli import ExitCode
from desched.model.load import UnknownReason
from tests.controlplane import forks
from tests.controlplane.chart_rendering import objects, renderer, template
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.files import replace
from tests.controlplane.forks import Prepare, as_it_is
from tests.controlplane.manifests import Object
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
WINDOW_SECONDS = 10
COMMAND = (sys.executable, "-m", "desched")

STALLED = "the deadline passed"
"""In the log of a run to which a server did not answer in time, which happens on a busy machine."""

ALONE = "--leader-elect=false"
"""For a run that contends with nobody: whoever makes a Lease waits for as long as it lasts."""

LEASE_SECONDS = 5
RENEW_DEADLINE_SECONDS = 3
QUICK_LEASE = (
    *("--lease-duration", f"{LEASE_SECONDS}s"),
    *("--renew-deadline", f"{RENEW_DEADLINE_SECONDS}s"),
    *("--retry-period", "1s"),
)

_OF_CLUSTER = {
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
_OF_STATE = {"Role", "RoleBinding"}


def measured(run: Callable[[], CompletedProcess[str]]) -> CompletedProcess[str]:
    """The first of these runs that had enough measurements.

    A machine that stalls for seconds leaves gaps in windows of seconds. A run that finds them holds
    all evictions, so that the next one finds what it found.
    """

    def conclusive() -> CompletedProcess[str] | None:
        ended = run()
        return None if ended.returncode == ExitCode.OBSERVATION else ended

    ended = wait_for("a run with enough measurements", conclusive)
    assert ended is not None
    return ended


def lacks_samples(report: Object) -> bool:
    """Whether the load of a node is unknown for the lack of the newest samples."""
    reasons = {verdict["reason"] for verdict in report["plan"]["nodes"]}
    return not reasons.isdisjoint({UnknownReason.STALE, UnknownReason.WINDOW_NOT_COVERED})


class Installation:
    """Runs desched under the ServiceAccount of `deploy/` and the published policy."""

    def __init__(self, plane: ControlPlane, prometheus: PrometheusServer, directory: Path) -> None:
        self.plane = plane
        self.prometheus = prometheus
        self.directory = directory

    def install_permissions(self, folder: str = "overlays/evict-without-steering") -> None:
        """The ServiceAccount and the rights exactly as this folder of `deploy/` ships them."""
        manifests = list(yaml.safe_load_all(self.plane.kubectl("kustomize", DEPLOY / folder)))
        wanted = [m for m in manifests if m["kind"] in _OF_CLUSTER]
        account = next(m for m in wanted if m["kind"] == "ServiceAccount")["metadata"]
        self.plane.apply(*sorted(wanted, key=lambda m: m["kind"] != "Namespace"))
        self._of_state = [m for m in manifests if m["kind"] in _OF_STATE]
        self.allow_state_in(account["namespace"])
        self.kubeconfig = self.plane.kubeconfig_for(account["namespace"], account["name"])
        self.account = account

    def kubeconfig_at(self, server: str, name: str, **user: str) -> Path:
        """As desched's account at that server, or as another user there."""
        document: Any = yaml.safe_load(self.kubeconfig.read_text())
        if user:
            document["users"][0]["user"] = user
        document["clusters"][0]["cluster"]["server"] = server
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        path.chmod(0o600)
        return path

    def new_token(self) -> str:
        """A further token of desched's account."""
        return self.plane.token_for(self.account["namespace"], self.account["name"])

    def allow_owner_kinds(self, *kinds: str) -> None:
        """The right that the chart grants with these values of `rights.ownerKinds`.

        Returns when the authorizer knows it.
        """
        values = {"rights": {"ownerKinds": kinds}}
        flags = ("--show-only", "templates/owner-kinds-rbac.yaml")
        self.plane.apply(*objects(template(renderer("helm"), values, *flags)).values())
        account = connect(self.kubeconfig, None)
        for kind in kinds:
            resource, _, group = kind.partition(".")
            listed = Access("list", group, resource, "", "")
            self.plane.wait_for(f"the right to {listed}", partial(has_right, account, listed))

    def allow_state_in(self, *namespaces: str) -> None:
        """The rights that `deploy/` ships for the namespace of the Lease and the state."""
        self.plane.apply(
            *(
                {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
                for namespace in namespaces
                for manifest in self._of_state
            )
        )

    def policy(self, name: str = "policy", **load_aware: Any) -> Path:
        """The shipped ConfigMap; only the address, what takes time and `load_aware` are patched.

        A service may be reading the file meanwhile.
        """
        manifest = yaml.safe_load((REPOSITORY / "policies" / "volcano-published.yaml").read_text())
        document = yaml.safe_load(manifest["data"]["policy.yaml"])
        for plugin in document["profiles"][0]["pluginConfig"]:
            if plugin["name"] == "LoadAware":
                plugin["args"]["metrics"]["address"] = self.prometheus.url
                window = f"{WINDOW_SECONDS}s"
                plugin["args"]["windows"] = {"cpu": [window], "memory": [window]}
                plugin["args"].update(load_aware)
        manifest["data"]["policy.yaml"] = yaml.safe_dump(document)
        path = self.directory / f"{name}.yaml"
        replace(path, yaml.safe_dump(manifest))
        return path

    def arguments(
        self,
        *flags: str,
        policy: Path | None = None,
        kubeconfig: Path | None = None,
        **load_aware: Any,
    ) -> list[str]:
        """The command line; `policy` is in place of one with `load_aware`."""
        path = policy or self.policy(**load_aware)
        common = ["--policy", str(path), "--kubeconfig", str(kubeconfig or self.kubeconfig)]
        return [*COMMAND, *common, *flags]

    def run(self, *flags: str, **load_aware: Any) -> CompletedProcess[str]:
        """Desched as a process of its own, to its end."""
        return forks.run(self.arguments(*flags, **load_aware)[len(COMMAND) :])

    def command(self, name: str, *flags: str) -> CompletedProcess[str]:
        """A command such as `status`, with the same account."""
        account = ("--kubeconfig", str(self.kubeconfig))
        done = forks.run([name, *account, *flags])
        assert done.returncode == 0, done.stderr
        return done

    def report(
        self,
        *flags: str,
        exit_code: int = ExitCode.DONE,
        prepare: Prepare = as_it_is,
        **load_aware: Any,
    ) -> Object:
        """The JSON report of one cycle that ended with this exit code.

        One that changed nothing, and for which a scrape came too late, is made again. What became
        of earlier evictions is in the report that is returned. What is to evict several pods at
        once must be prepared by `hold_if_unknown`: else it evicts those of the nodes that it knows.
        """
        arguments = self.arguments(*flags, "--output", "json", **load_aware)[len(COMMAND) :]
        settled: list[Object] = []

        def conclusive() -> Object | None:
            done = forks.run(arguments, prepare)
            assert done.returncode in {exit_code, ExitCode.OBSERVATION}, done.stderr
            lost = [line for line in done.stderr.splitlines() if "not_written" in line]
            assert all(STALLED in line for line in lost), done.stderr
            report: Object = json.loads(done.stdout or "{}")
            settled.extend(report.get("settled", ()))
            if exit_code == done.returncode == ExitCode.OBSERVATION:
                return report
            if done.returncode != exit_code or (lacks_samples(report) and not report["outcomes"]):
                return None
            return {**report, "settled": settled}

        found = wait_for("a report of nodes that are measured", conclusive)
        assert found is not None
        return found
