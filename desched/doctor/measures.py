"""Does Prometheus have what each query asks for, and is it plausible?"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from desched.doctor.checks import Check, CheckName, Verdict, ok, problem, skipped
from desched.doctor.examination import Examination, Unanswered
from desched.doctor.thresholds import pressure_of, wait_for_windows, wait_until
from desched.model.cluster import ClusterState
from desched.model.groups import grouped
from desched.model.load import Measured, Unknown
from desched.model.measures import LabelGroup, MeasureFacts, MetricsFacts
from desched.model.resources import Resource
from desched.planning.overload.scope import out_of_scope
from desched.policy.durations import duration_text
from desched.policy.policy import Policy
from desched.wording.formatting import count, first_names, percent

NAMES: Mapping[str, CheckName] = {
    "node_cpu": CheckName.NODE_CPU,
    "node_memory": CheckName.NODE_MEMORY,
    "pod_cpu": CheckName.POD_CPU,
    "pod_memory": CheckName.POD_MEMORY,
}
KEYS: Mapping[str, str] = {
    "node_cpu": "nodeCPU",
    "node_memory": "nodeMemory",
    "pod_cpu": "podCPU",
    "pod_memory": "podMemory",
}
"""The keys of `metrics.queries` and `metrics.sources` in a policy."""

HIGHEST_RATIO = 1.05
"""A share of capacity can be a little above 1; beyond it is another unit."""

_WAITING = frozenset({"iowait", "steal"})
"""Modes of CPU time without which load is a little too high."""

LEAST_MEASURED_SHARE = 0.9
"""Fewer nodes or pods than this are worth a warning: some have just come, as everywhere."""

LEAST_BYTES = 100_000
"""Some pod uses more memory than this, or the unit is not bytes."""


def check_measures(metrics: MetricsFacts, examination: Examination) -> Iterator[Check]:
    """One check for each measure of nodes and pods."""
    policy = examination.policy.policy
    reaches = (one.reach_seconds for one in metrics.measures)
    reach = min((seconds for seconds in reaches if seconds is not None), default=0.0)
    for measure, name in NAMES.items():
        facts = next((one for one in metrics.measures if one.name == measure), None)
        if facts is None:
            resource = measure.partition("_")[2]
            yield skipped(name, f"The policy has no target for {resource}.")
        else:
            yield _Measure(facts, policy, examination, reach).check()


class _Measure:
    """The check of one measure."""

    def __init__(
        self, facts: MeasureFacts, policy: Policy, examination: Examination, reach_seconds: float
    ) -> None:
        self._facts = facts
        self._reach_seconds = reach_seconds  # of the shortest, which is what all wait for
        self._policy = policy
        self._name = NAMES[facts.name]
        self._key = KEYS[facts.name]
        cluster = examination.cluster
        self._cluster = ClusterState((), ()) if isinstance(cluster, Unanswered) else cluster
        self._at = examination.at
        snapshot = examination.snapshot
        pressure = pressure_of(snapshot, policy, None) if snapshot else None
        self._verdicts = pressure.verdicts if pressure else ()

    def check(self) -> Check:
        facts = self._facts
        if not (facts.of_nodes or facts.series or self._expected()):
            return skipped(self._name, "No pod runs in the cluster.")
        if facts.problem:
            where = f"`metrics.queries.{self._key}`" if facts.own_query else "`metrics.sources`"
            return problem(self._name, facts.problem, f"Correct {where}, or the address.")
        if facts.missing_modes and not (facts.series and _WAITING.issuperset(facts.missing_modes)):
            return self._without_modes()
        if not facts.series:
            return self._absent()
        if (unit := self._other_unit()) is not None:
            return unit
        return self._measured()

    def _without_modes(self) -> Check:
        """CPU time of some modes is dropped; without them load is unknown, or too low."""
        missing = ", ".join(self._facts.missing_modes)
        return problem(
            self._name,
            f"Prometheus keeps node_cpu_seconds_total without the modes {missing}; load is the "
            "share of all modes that are not idle.",
            "Keep all modes of node_cpu_seconds_total in its relabelling, or record the load and "
            f"set `metrics.queries.{self._key}`.",
        )

    def _young(self) -> Check:
        """Its exporter is scraped, but not for as long as the longest window yet."""
        window = max(self._policy.windows(self._facts.resource))
        left = timedelta(seconds=max(window - self._reach_seconds, 0.0))
        return problem(
            self._name,
            f"Prometheus is young: its samples reach back {self._reach_seconds:.0f} s, and the "
            f"longest window is {duration_text(window)}.",
            wait_until(self._at + left, self._at),
        )

    def _absent(self) -> Check:
        facts = self._facts
        if facts.reach_seconds is not None:
            return self._young()
        if facts.own_query:
            return problem(
                self._name,
                f"The policy's own query metrics.queries.{self._key} returns no series.",
                f"Try `metrics.queries.{self._key}` in Prometheus, or remove it: there is a "
                "built-in query.",
            )
        if job := other_job(facts, self._policy.metrics.matchers):
            return problem(
                self._name,
                f'No series of the usual exporters, but there are some of job="{job}".',
                f'If its targets are trusted, set `metrics.sources.{self._key}: job="{job}"`.',
                _groups(facts.elsewhere),
            )
        if jobless := _jobless(facts, self._policy.metrics.matchers):
            return problem(
                self._name,
                f"No series of the usual exporters, but {count(jobless, 'series', 'series')} "
                "without the label job, so that nothing shows who wrote them.",
                "Let what sends them set the label job. If only trusted senders can write to this "
                f'Prometheus, set `metrics.sources.{self._key}: job=""`.',
            )
        if facts.elsewhere:
            return problem(
                self._name,
                "The policy's matchers select no series, but there are some with other labels.",
                "Correct `metrics.matchers` to the labels of this cluster.",
                _groups(facts.elsewhere),
            )
        exporter = (
            "node_exporter or /metrics/cadvisor of the kubelets"
            if facts.of_nodes
            else ("/metrics/cadvisor of the kubelets")
        )
        return problem(
            self._name,
            "Prometheus has no series for it.",
            f"Let Prometheus scrape {exporter}; for other exporters set "
            f"`metrics.queries.{self._key}`.",
        )

    def _other_unit(self) -> Check | None:
        """The problem if the values cannot have the unit that is expected; None if they can."""
        facts = self._facts
        if facts.highest is None:
            return problem(
                self._name,
                f"{count(facts.series, 'series', 'series')}, none of which is a number.",
                f"Check `metrics.queries.{self._key}`, or the exporter.",
            )
        if facts.of_nodes:
            shown = f"{facts.highest:.4g}"
            looks = "percent" if facts.highest > HIGHEST_RATIO else ""
            expected = "a share of capacity from 0 to 1"
        elif facts.resource is Resource.CPU:
            cores = max((n.capacity.cpu_millicores for n in self._cluster.nodes), default=0) / 1000
            shown, expected = f"{facts.highest:.4g}", "cores"
            looks = "millicores" if cores and facts.highest > 2 * cores else ""
        else:
            shown, expected = f"{facts.highest:.4g}", "bytes"
            looks = "MiB or GiB" if facts.highest < LEAST_BYTES else ""
        if not looks:
            return None
        return problem(
            self._name,
            f"The highest value is {shown}, which looks like {looks}; {expected} is expected.",
            f"Convert the unit in `metrics.queries.{self._key}`."
            if facts.own_query
            else f"Set `metrics.sources.{self._key}` to an exporter that can be trusted.",
        )

    def _measured(self) -> Check:
        facts = self._facts
        expected = self._expected()
        measured = self._counted()
        what = "node" if facts.of_nodes else "running pod"
        sentence = f"{measured} of {count(expected, what)} by {self._source()}; {self._quality()}."
        details = self._details()
        if expected and not measured:
            if facts.reach_seconds is not None:
                return self._young()
            return problem(self._name, sentence, self._fix(), details)
        if measured < LEAST_MEASURED_SHARE * expected:
            return Check(self._name, Verdict.WARNING, sentence, self._fix(), details)
        return ok(self._name, sentence, details=details if facts.unmatched else ())

    def _expected(self) -> int:
        """The nodes in scope, or the running pods."""
        if not self._facts.of_nodes:
            return sum(bool(p.node) and p.phase == "Running" for p in self._cluster.pods)
        return len(self._in_scope())

    def _in_scope(self) -> frozenset[str]:
        """The nodes in scope; all nodes if none is, so that their data is shown none the less."""
        nodes = self._cluster.nodes
        in_scope = frozenset(n.name for n in nodes if not out_of_scope(n, self._policy, self._at))
        return in_scope or frozenset(node.name for node in nodes)

    def _counted(self) -> int:
        if not self._facts.of_nodes:
            return self._facts.measured
        loads = self._facts.loads
        return sum(isinstance(loads.get(name), Measured) for name in self._in_scope())

    def _source(self) -> str:
        facts = self._facts
        source = "the policy's own query" if facts.own_query else facts.source
        ways = first_names([f"{way} ({number})" for way, number in facts.matched.items()], 5)
        return f"{source}, matched by {ways}" if ways else source

    def _quality(self) -> str:
        facts = self._facts
        parts = [count(facts.series, "series", "series")]
        if facts.oldest_age_seconds is not None:
            parts.append(f"newest samples up to {max(facts.oldest_age_seconds, 0):.0f} s old")
        if facts.of_nodes and facts.lowest is not None and facts.highest is not None:
            parts.append(f"load from {percent(facts.lowest)} to {percent(facts.highest)} %")
        return ", ".join(parts)

    def _details(self) -> tuple[str, ...]:
        """Why series or nodes do not count."""
        facts = self._facts
        lines = []
        if facts.unmatched:
            examples = "; ".join(facts.examples)
            lines.append(
                f"{count(facts.unmatched, 'series', 'series')} of no known one: {examples}"
            )
        for service in facts.services:
            labels = ", ".join(f'{name}="{value}"' for name, value in service.labels.items())
            lines.append(f"{count(service.count, 'node')} claimed by series with {{{labels}}}")
        if facts.of_nodes:
            in_scope = self._in_scope()
            names_by_reason = grouped(
                (f"{load.reason}: {load.detail}" if load.detail else str(load.reason), name)
                for name, load in facts.loads.items()
                if name in in_scope and not isinstance(load, Measured)
            )
            for reason, names in sorted(names_by_reason.items(), key=lambda pair: -len(pair[1])):
                lines.append(f"{first_names(names, 3)}: {reason}")
        lines.append(f"labels: {', '.join(facts.labels)}")
        return tuple(lines)

    def _fix(self) -> str:
        if self._facts.short_windows:
            return f"Set wider `windows.{self._facts.resource}`."
        if self._facts.services:
            labels = self._facts.services[0].labels
            named = ",".join(f'{name}="{value}"' for name, value in labels.items() if value)
            whose = f"{labels.get('namespace', '')}/{labels.get('service', '')}"
            return (
                f"If Service {whose} is that of your exporters, set "
                f"`metrics.sources.{self._key}: {named}`."
            )
        if self._facts.unmatched:
            return (
                "Let the scrape configuration add a label `node` with the node's name, or correct "
                "`metrics.matchers`."
            )
        loads = self._facts.loads
        unmeasured = [v for v in self._verdicts if isinstance(loads.get(v.node), Unknown)]
        if wait := wait_for_windows(unmeasured, self._at):
            return wait
        return f"Check that its exporter is scraped on each node; `metrics.sources.{self._key}`."


def other_job(facts: MeasureFacts, matchers: Mapping[str, str]) -> str:
    """The job with the most series that the policy's sources exclude, empty if there is none."""
    jobs = grouped(
        (group.labels.get("job", ""), group.count)
        for group in facts.elsewhere
        if group.has(matchers)
    )
    jobs.pop("", None)
    return max(jobs, key=lambda job: (sum(jobs[job]), job), default="")


def _jobless(facts: MeasureFacts, matchers: Mapping[str, str]) -> int:
    """How many series that the matchers select have no job, as some that were sent have none."""
    return sum(
        group.count
        for group in facts.elsewhere
        if group.has(matchers) and not group.labels.get("job")
    )


def _groups(groups: Iterable[LabelGroup]) -> tuple[str, ...]:
    lines = []
    for group in groups:
        labels = ", ".join(f'{k}="{v}"' for k, v in sorted(group.labels.items()))
        lines.append(f"{count(group.count, 'series', 'series')} with {{{labels}}}")
    return tuple(lines)
