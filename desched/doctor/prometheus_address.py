"""Is there a Prometheus, whose is it, and does it have this cluster?"""

from collections.abc import Mapping

from desched.adapters.prometheus.stacks import FoundService, service_behind
from desched.doctor.checks import Check, CheckName, Verdict, ok, problem, skipped, unknown, warning
from desched.doctor.examination import Examination, Origin, PrometheusFacts, Unanswered
from desched.model.measures import MetricsFacts
from desched.wording.formatting import first_names

NETWORK_POLICY_PORTS = frozenset({443, 6443, 9090})
"""Ports of pods that deploy/base/network-policy.yaml lets desched reach."""

EMPTY = '""'
_NAME_ONE = "Set `metrics.address` in the policy or pass `--prometheus-url`"

_URL_UNUSED = (
    "--prometheus-url (DESCHED_PROMETHEUS_URL) is set but not used, because the policy reads load "
    "from {}. No cycle runs with both."
)
_ONE_SOURCE = "Remove the setting, or set `metrics.type: prometheus` in the policy."


def check_prometheus(examination: Examination) -> Check:
    """Whether an address is set or found, and whether it answers."""
    name, facts = CheckName.PROMETHEUS, examination.prometheus
    if examination.policy.policy.metrics.type.is_sampled:
        return _sampled(examination)
    if not facts.address:
        if examination.policy.problem:
            return skipped(name, "The policy, which may name its address, is invalid.")
        return _nowhere(facts)
    if facts.invalid:
        fix = f"{_NAME_ONE}, and correct what the sentence names."
        if facts.origin is Origin.DISCOVERED:
            fix = f"If it is the right one, pass `--prometheus-url {facts.address}`."
        return Check(name, Verdict.PROBLEM, facts.problem, fix, invalid_configuration=True)
    if facts.problem:
        return problem(name, facts.problem, _reach(examination), _others(facts))
    return _answering(examination)


def _sampled(examination: Examination) -> Check:
    """The check of a policy that needs no Prometheus."""
    name, load = CheckName.PROMETHEUS, examination.load
    title = examination.policy.policy.metrics.type.in_words
    if examination.prometheus.invalid:
        sentence = _URL_UNUSED.format(title)
        return Check(name, Verdict.PROBLEM, sentence, _ONE_SOURCE, invalid_configuration=True)
    if isinstance(load, Unanswered):
        fix = "Correct what the sentence names, or set `metrics.type: prometheus` in the policy."
        return problem(name, load.why, fix)
    return ok(
        name,
        f"The policy reads load from {title}, which answers. It has no history and no throttling.",
        "A service takes samples itself; `desched plan --wait 3m` does so once.",
    )


def _answering(examination: Examination) -> Check:
    """The check of a Prometheus that answers."""
    name, facts = CheckName.PROMETHEUS, examination.prometheus
    behind = service_behind(facts.address, facts.found)
    sentence = f"Prometheus at {facts.address} answers ({_origin(facts, behind)})."
    policy = examination.policy
    if facts.origin is Origin.DISCOVERED and policy.source and not policy.problem:
        fix = f"Set `metrics.address: {facts.address}` in {policy.source}."
        return problem(name, f"No address of Prometheus is set. {sentence}", fix, _others(facts))
    if behind and behind.pod_port not in NETWORK_POLICY_PORTS:
        return warning(
            name,
            f"{sentence} Its pods listen on port {behind.pod_port}, which the NetworkPolicy of "
            "deploy/base does not allow.",
            f"Add the port {behind.pod_port} to `deploy/base/network-policy.yaml`.",
        )
    if facts.origin is Origin.DISCOVERED and len(facts.found) > 1:
        fix = "Check that it is the right one, or pass `--prometheus-url`."
        return warning(name, sentence, fix, _others(facts))
    hint = ""
    if behind and not examination.run.in_cluster:
        hint = f"If the API server must not forward queries, {behind.steps}."
    return ok(name, sentence, hint)


def _nowhere(facts: PrometheusFacts) -> Check:
    name = CheckName.PROMETHEUS
    if facts.problem:  # of the policy's stack
        fix = "Correct `metrics.stack` and `metrics.namespace`, or set `metrics.address`."
        invalid = facts.invalid
        return Check(name, Verdict.PROBLEM, facts.problem, fix, invalid_configuration=invalid)
    if isinstance(facts.services, Unanswered):
        sentence = (
            f"No address of Prometheus is set, and none could be searched for. {facts.services.why}"
        )
    else:
        sentence = "No address of Prometheus is set, and no Service of a known stack was found."
    return problem(name, sentence, f"{_NAME_ONE}.")


def _origin(facts: PrometheusFacts, behind: FoundService | None) -> str:
    stack = f", {behind.stack}" if behind else ""
    if facts.origin is Origin.DISCOVERED and behind:
        return f"found by the labels of Service {behind.namespace}/{behind.name}{stack}"
    return f"from {facts.origin}{stack}"


def _reach(examination: Examination) -> str:
    """What to do if Prometheus does not answer."""
    facts = examination.prometheus
    behind = service_behind(facts.address, facts.found)
    if facts.answers and not (behind and behind.needs):
        return (
            "Correct what the sentence names: something answers at this address. Or pass another "
            "one with `--prometheus-url`."
        )
    if behind is None:
        return f"{_NAME_ONE}, with an address that answers."
    if behind.needs and facts.origin is Origin.STACK:
        return f"{behind.stack} {behind.needs}."
    if behind.needs:
        return f"{behind.stack} {behind.needs}; pass `--prometheus-url {behind.url}` with them."
    if examination.run.in_cluster:
        port = behind.pod_port
        return (
            f"Check `kubectl --namespace {behind.namespace} get endpointslices`, and that "
            f"`deploy/base/network-policy.yaml` allows port {port}."
        )
    return f"{behind.steps[0].upper()}{behind.steps[1:]}."


def _others(facts: PrometheusFacts) -> tuple[str, ...]:
    """The Services of known stacks at other addresses."""
    behind = service_behind(facts.address, facts.found)
    others = (service for service in facts.found if service != behind)
    return tuple(f"found: {other}; to reach it, {other.steps}" for other in others)


def check_matchers(metrics: MetricsFacts, examination: Examination) -> Check:
    """Whether the data is this cluster's, and not that of others as well."""
    name = CheckName.MATCHERS
    policy = examination.policy.policy
    set_matchers = policy.metrics.matchers
    ours = own_matchers(metrics, set_matchers)
    mixed = [label for label, seen in metrics.cluster_values.items() if len(seen) > 1]
    mixed = [label for label in mixed if label not in set_matchers]
    if metrics.sightings is not None and metrics.sampled:
        selected = sum(g.count for g in metrics.sightings if g.has(set_matchers))
        if not selected:
            return _not_ours(metrics, set_matchers, ours)
    if mixed:
        values = sorted(metrics.cluster_values[mixed[0]], key=lambda value: (not value, value))
        listed = first_names([value or "none" for value in values], 5)
        return problem(
            name,
            f"Prometheus has data of {len(values)} clusters by the label {mixed[0]}: {listed}.",
            _set(ours)
            if ours
            else f"Set `metrics.matchers` to the label {mixed[0]} with the value of this cluster.",
        )
    if metrics.sightings is None:
        sentence = "Whether Prometheus has the pods of this cluster could not be asked."
        return unknown(name, sentence, "Raise `--prometheus-timeout` if this repeats.")
    if not metrics.sampled:
        return ok(name, "The cluster has no pods by which its data can be told from others.")
    by = f" by {_text(set_matchers)}" if set_matchers else ""
    named = sum(g.count for g in metrics.sightings if g.has(set_matchers))
    pods = f"{min(named, metrics.sampled)} of {metrics.sampled} sampled pods"
    return ok(name, f"The data is this cluster's{by}: Prometheus has {pods}.")


def check_honored_labels(metrics: MetricsFacts, _: Examination) -> Check:
    """Whether Prometheus lets pods of any namespace write what its exporters report."""
    name, jobs = CheckName.HONORED_LABELS, metrics.jobs_of_strangers
    if jobs is None:
        return skipped(name, "Its configuration cannot be read, which is so with most stacks.")
    if not jobs:
        return ok(name, "No scrape job lets targets of all namespaces set their own labels.")
    return warning(
        name,
        f"Pods of any namespace can write any series, by {first_names(jobs, 5)}.",
        "Set honor_labels to false for these jobs: `metrics.sources` cannot tell them apart.",
    )


def own_matchers(metrics: MetricsFacts, set_matchers: Mapping[str, str]) -> dict[str, str]:
    """The matchers that select this cluster, empty if none are needed or if they are not clear.

    They are those labels of the pods of this cluster that identify a cluster.
    """
    best = next(iter(metrics.sightings or ()), None)
    if best is None or best.count * 2 <= metrics.sampled:
        return {}
    mixed = {label for label, seen in metrics.cluster_values.items() if len(seen) > 1}
    # An empty value selects series without the label, which others have.
    return {label: best.labels.get(label, "") for label in sorted(mixed | set_matchers.keys())}


def _not_ours(
    metrics: MetricsFacts, set_matchers: Mapping[str, str], ours: Mapping[str, str]
) -> Check:
    name = CheckName.MATCHERS
    if set_matchers and ours:
        return problem(
            name,
            f"The matchers {_text(set_matchers)} select none of {metrics.sampled} sampled pods of "
            f"this cluster; Prometheus has them under {_text(ours)}.",
            _set(ours),
        )
    under = f" under {_text(set_matchers)}" if set_matchers else ""
    return problem(
        name,
        f"Prometheus has none of {metrics.sampled} sampled pods of this cluster{under}.",
        "Correct `metrics.matchers`, or pass the `--prometheus-url` of this cluster's Prometheus; "
        "it must scrape /metrics/cadvisor of the kubelets.",
    )


def _set(matchers: Mapping[str, str]) -> str:
    return f"Set `metrics.matchers: {_text(matchers)}` in the policy."


def _text(matchers: Mapping[str, str]) -> str:
    parts = (f"{label}: {value or EMPTY}" for label, value in sorted(matchers.items()))
    return f"{{{', '.join(parts)}}}"
