"""The first process of a node, in name spaces of its own: `node.py CONFIGURATION`.

It shows its programs a machine of one CPU, runs containerd, kubelet and node_exporter, and starts
each again that ends. The configuration is the JSON of `tests/nodes/lab.py`. It needs no package.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
CGROUPS = Path("/sys/fs/cgroup")
USER_HZ = os.sysconf("SC_CLK_TCK")

KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What a kubelet would set for the whole machine if it did not find it."""


class Node(NamedTuple):
    """What there is to know about a node; its folder has everything that it writes."""

    name: str
    address: str
    pods: str
    memory_bytes: int
    directory: Path
    kubeconfig: Path
    binaries: Path
    registry: str


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def show(node: Node, target: str, text: str) -> None:
    """The text in place of a file of the machine, in this name space alone."""
    source = node.directory / "shown" / target.strip("/").replace("/", "_")
    source.parent.mkdir(exist_ok=True)
    source.write_text(text)
    mount("--bind", source, target)


def mount_all(node: Node) -> None:
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    subprocess.run(["umount", "--recursive", "/sys"], check=True)
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("-t", "tmpfs", "-o", "mode=755", "cgroup", CGROUPS)
    hierarchies = [("cgroup", each, each) for each in CONTROLLERS]
    hierarchies += [("cgroup", "systemd", "none,name=systemd"), ("cgroup2", "unified", "rw")]
    for kind, name, options in hierarchies:
        (CGROUPS / name).mkdir()
        mount("-t", kind, "-o", options, kind, CGROUPS / name)
    for source, target in (("lib", "/var/lib"), ("log", "/var/log")):
        (node.directory / source).mkdir()
        mount("--bind", node.directory / source, target)
    mount("-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for folder in ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/run/lock"):
        Path(folder).mkdir(parents=True)


def show_one_cpu(node: Node) -> None:
    for key, value in KERNEL.items():
        show(node, f"/proc/sys/{key}", f"{value}\n")
    _, *others = Path("/proc/meminfo").read_text().splitlines()
    total = f"MemTotal: {node.memory_bytes // 1024} kB"
    show(node, "/proc/meminfo", "\n".join([total, *others, ""]))
    first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    show(node, "/proc/cpuinfo", f"{first}\n\n")
    devices = Path("/sys/devices/system")
    for folder in ("node", "cpu"):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", devices / folder)
    topology = devices / "cpu" / "cpu0" / "topology"
    topology.mkdir(parents=True)
    for name in ("core_id", "physical_package_id"):
        (topology / name).write_text("0\n")
    for name in ("online", "possible", "present"):
        (devices / "cpu" / name).write_text("0\n")


RUNC = """#!/bin/sh
# Filters of system calls need libseccomp, which is no module of Go. runc ignores unknown keys.
for each; do
  [ "$last" != --bundle ] || sed -i 's/"seccomp":/"unfiltered":/' "$each/config.json"
  last=$each
done
exec {} "$@"
"""


def write_configurations(node: Node) -> None:
    runc = node.directory / "runc"
    runc.write_text(RUNC.format(node.binaries / "runc"))
    runc.chmod(0o755)
    network = node.directory / "cni" / "10-nodes.conflist"
    network.parent.mkdir()
    addresses = {"type": "host-local", "subnet": node.pods, "routes": [{"dst": "0.0.0.0/0"}]}
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    network.write_text(json.dumps({"cniVersion": "1.0.0", "name": "nodes", "plugins": [plugin]}))
    hosts = node.directory / "hosts" / "_default" / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f'server = "{node.registry}"\n')  # whatever registry an image names
    (node.directory / "containerd.toml").write_text(f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "nodes.test/pause:1"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{node.directory}/hosts"
[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
disable_hugetlb_controller = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{node.binaries}"]
conf_dir = "{network.parent}"
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
""")
    (node.directory / "kubelet.json").write_text(
        json.dumps(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "address": node.address,
                "healthzPort": 0,
                "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                "authorization": {"mode": "AlwaysAllow"},
                "cgroupDriver": "cgroupfs",
                "failCgroupV1": False,
                "failSwapOn": False,
                "oomScoreAdj": 0,  # to lower it takes a capability that few have
                "protectKernelDefaults": True,
                "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
                "imageGCHighThresholdPercent": 100,
                "imageGCLowThresholdPercent": 99,
                "evictionHard": {"memory.available": "300Mi", "nodefs.available": "1%"},
                "evictionPressureTransitionPeriod": "30s",  # not five minutes
                "systemReserved": {"cpu": "100m", "memory": "200Mi"},
                "resolvConf": "",
                "makeIPTablesUtilChains": False,
            }
        )
    )


class Figures:
    """What /proc of a machine of one CPU would show, from the node's cgroups."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._folder = node.directory / "proc"
        self._folder.mkdir()
        self._begin = time.monotonic()
        self._idle = 0

    def write(self) -> None:
        """Every figure as of now."""
        # cpuacct.stat, which has the modes, only counts who runs at each tick.
        used = int((CGROUPS / "cpuacct" / "cpuacct.usage").read_text()) * USER_HZ // 10**9
        passed = int((time.monotonic() - self._begin) * USER_HZ)
        self._idle = max(self._idle, passed - used)  # a counter never falls
        columns = f"{used} 0 0 {self._idle} 0 0 0 0 0 0"
        self._put("stat", f"cpu  {columns}\ncpu0 {columns}\nbtime 0\n")
        text = (CGROUPS / "memory" / "memory.stat").read_text()
        stat = {name: int(value) for name, value in map(str.split, text.splitlines())}
        usage = int((CGROUPS / "memory" / "memory.usage_in_bytes").read_text())
        total = self._node.memory_bytes
        sizes = {
            "MemTotal": total,
            "MemFree": total - usage,
            "MemAvailable": total - usage + stat["total_inactive_file"],
            "Cached": stat["total_cache"],
            "Inactive(file)": stat["total_inactive_file"],
            "Buffers": 0,
            "Slab": 0,
        }
        self._put("meminfo", "".join(f"{k}: {v // 1024} kB\n" for k, v in sizes.items()))

    def _put(self, name: str, text: str) -> None:
        unfinished = self._folder / f".{name}"
        unfinished.write_text(text)
        unfinished.rename(self._folder / name)


def commands(node: Node) -> dict[str, list[str | Path]]:
    return {
        "containerd": [node.binaries / "containerd", "-c", node.directory / "containerd.toml"],
        "kubelet": [
            node.binaries / "kubelet",
            f"--config={node.directory}/kubelet.json",
            f"--kubeconfig={node.kubeconfig}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
        ],
        "node_exporter": [
            node.binaries / "node_exporter",
            f"--path.procfs={node.directory}/proc",
            "--collector.disable-defaults",
            "--collector.cpu",
            "--collector.meminfo",
            f"--web.listen-address={node.address}:9100",
        ],
    }


def start(node: Node, name: str, command: list[str | Path]) -> subprocess.Popen[bytes]:
    path = f"{node.binaries}:{os.environ['PATH']}"
    with (node.directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env=os.environ | {"PATH": path, "GOMAXPROCS": "1"}
        )


def run(node: Node) -> None:
    """Until the whole name space is killed."""
    figures = Figures(node)
    figures.write()
    running: dict[str, subprocess.Popen[bytes]] = {}
    while True:
        for name, command in commands(node).items():
            if name not in running or running[name].poll() is not None:
                running[name] = start(node, name, command)
        figures.write()
        reap(lambda: {process.pid for process in running.values()})
        time.sleep(1)


def reap(known: Callable[[], set[int]]) -> None:
    """What was left to this process; the known ones are for `subprocess`."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid in known():
            return
        os.waitpid(ended.si_pid, 0)


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    folders = {key: Path(given[key]) for key in ("directory", "kubeconfig", "binaries")}
    node = Node(**{**given, **folders})
    mount_all(node)
    show_one_cpu(node)
    write_configurations(node)
    run(node)


if __name__ == "__main__":
    main()
