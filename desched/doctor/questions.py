"""Asks the cluster and Prometheus what the doctor wants to know, and changes nothing.

Each question has its own answer: one that fails never hides the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from desched.adapters.kubernetes.client.access import (
    FEATURES,
    LOGBOOK_ACCESS,
    Feature,
    Where,
)
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import GROUPS_OF_EVERY_SERVER
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.adapters.kubernetes.logbook_store import CONFIG_MAP as LOGBOOK
from desched.adapters.kubernetes.permission import account_name, reviewed
from desched.adapters.kubernetes.services import read_services
from desched.adapters.kubernetes.state_store import CONFIG_MAP
from desched.adapters.prometheus.connection import without_user
from desched.adapters.prometheus.stacks import FoundService, find_prometheus, service_of_stack
from desched.api_objects.access import Access
from desched.api_objects.plugin_kinds import SystemRights
from desched.bootstrap.annexes import has_annex
from desched.bootstrap.load_source import LoadSource
from desched.bootstrap.look import reader_of
from desched.bootstrap.runs import intent_of
from desched.bootstrap.side_tasks import contends
from desched.bootstrap.state import state_namespace, state_store
from desched.doctor.examination import (
    Examination,
    FeatureRights,
    Origin,
    PolicyFacts,
    PrometheusFacts,
    RunFacts,
    SystemFacts,
    Unanswered,
)
from desched.doctor.node_autoscalers import (
    NODE_POOLS,
    STATUS_NAME,
    STATUS_NAMESPACE,
    has_cluster_autoscaler,
)
from desched.doctor.other_controllers import CLUSTER_AUTOSCALER, KARPENTER
from desched.doctor.price import ProposedPrice, default_price
from desched.doctor.proposed_policy import proposed_policy
from desched.doctor.system_rights import system_rights
from desched.doctor.thresholds import judged_policy
from desched.errors import (
    ConfigurationError,
    ObservationError,
    ObservationSource,
    UnusableAnswer,
)
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.report import Mode
from desched.model.resources import Resource
from desched.planning.clocks import lead_seconds
from desched.policy.policy import MetricsSource, MetricsType, Policy
from desched.policy_file.loading import parse_policy
from desched.service.process.clock import SystemClock
from desched.settings import Settings

T = TypeVar("T")
Tell = Callable[[str], None]
"""Shows what is being asked."""

PROPOSED = "the proposed policy"
NOT_ASKED = Unanswered("Prometheus was not asked.")
SILENT = Unanswered("The API server does not answer.")
ASKED_AT_ONCE = 8
MOST_TRIED_SERVICES = 3
MOST_ROUNDS = 3
"""A proposed policy changes what is read, which may change the policy again."""

_NO_GROUPS = "The API server does not list its API groups."

NAMES = {"configmaps": CONFIG_MAP, "leases": KubernetesLease.name}
"""The objects of a kind that desched needs, by its resource; the logbook has its own."""


class DoctorQuestions:
    """Reads what an examination needs; what does not depend on a policy is read once."""

    def __init__(
        self, settings: Settings, kubernetes: KubernetesConnection, clock: SystemClock, tell: Tell
    ) -> None:
        self._settings = settings
        self._kubernetes = kubernetes
        self._clock = clock
        self._tell = tell
        self._request_seconds = settings.api_server_timeout.total_seconds()
        self._own_namespace = settings.pod_namespace or kubernetes.namespace
        self._reader = reader_of(settings, kubernetes)
        self._source = LoadSource(settings, kubernetes, clock)
        # A run refuses both; here metrics-server answers, so that one problem hides no other.
        without_url = settings.model_copy(update={"prometheus_url": None})
        self._sampled = LoadSource(without_url, kubernetes, clock)

    def examine(self, policy: PolicyFacts) -> Examination:
        """Ask everything."""
        self._tell("Asking the API server")
        version = _answered(lambda: self._reader.read_server().version)
        if isinstance(version, Unanswered):
            return self._with_load(self._examination(policy, version, SILENT))
        self._tell("Reading the cluster")
        began = self._clock.now()
        named = policy.policy.scheduler.volcano_configurations
        cluster = _answered(lambda: self._reader.read_cluster((), named))
        ended = self._clock.now()
        store = state_store(self._settings, self._kubernetes)
        examination = replace(
            self._examination(policy, version, cluster),
            at=ended,
            rights=self._rights(),
            systems={
                rights.name: _answered(partial(self._systems, rights))
                for rights, _ in system_rights(policy.policy)
            },
            node_autoscalers=_answered(self._node_autoscalers),
            prometheus=PrometheusFacts(services=_answered(self._services)),
            state=_answered(store.load),
        )
        if not examination.run.in_cluster and examination.lacks_rights:
            account = account_name(self._kubernetes, self._request_seconds)
            examination = replace(examination, run=replace(examination.run, account=account))
        if not isinstance(cluster, Unanswered):
            lead = lead_seconds(cluster.server_times, began, ended)
            examination = replace(examination, cluster_lead_seconds=lead)
        return self._with_load(examination)

    def _examination(
        self, policy: PolicyFacts, version: str | Unanswered, cluster: ClusterState | Unanswered
    ) -> Examination:
        """An examination in which nothing else is known yet."""
        return Examination(
            at=self._clock.now(),
            run=self._run_facts(),
            server_version=version,
            rights=(),
            policy=policy,
            cluster=cluster,
            prometheus=PrometheusFacts(services=SILENT),
            metrics=NOT_ASKED,
            load=NOT_ASKED,
            state=SILENT,
        )

    def propose(self, first: Examination) -> tuple[Examination, str | None]:
        """A policy that fits, with the examination by it; None if there is no source of load."""
        base = first.policy.policy if first.policy.source and not first.policy.problem else None
        if base is None and not first.prometheus.address:
            first = self._by_metrics_server(first)
            base = first.policy.policy
        examination, text = first, proposed_policy(first, base)
        for _ in range(MOST_ROUNDS):
            if text is None:
                break
            before, proposed = examination.policy.policy, parse_policy(text, PROPOSED).policy
            address = before.metrics.address
            base = replace(proposed, metrics=replace(proposed.metrics, address=address))
            examination = replace(examination, policy=PolicyFacts(base))
            if _reads_alike(base, before):
                break
            examination = self._with_load(examination)
            text = proposed_policy(examination, base)
        return examination, text

    def with_price(self, proposed: Examination) -> tuple[Examination, str | None, ProposedPrice]:
        """What `propose` found, with the price that replays of the past show, and why that."""
        policy, cluster = proposed.policy.policy, proposed.cluster
        nodes = 0 if isinstance(cluster, Unanswered) else len(cluster.nodes)
        read_by = _read_by(proposed.prometheus, policy)
        price = self._price(read_by, nodes)
        text = proposed_policy(proposed, policy, price)
        if price.minutes is not None:
            policy = replace(policy, eviction_price_minutes=price.minutes)
        return replace(proposed, policy=PolicyFacts(policy)), text, price

    def _price(self, policy: Policy, nodes: int) -> ProposedPrice:
        """The price by the past, which the simulation replays; an installation may lack that."""
        if not has_annex("desched.lab"):
            return default_price("this installation leaves out desched.lab, which replays the past")
        from desched.doctor.replayed_price import replayed_price  # noqa: PLC0415  (optional)

        return replayed_price(self._settings, policy, nodes, self._clock, self._tell)

    def _by_metrics_server(self, examination: Examination) -> Examination:
        """The examination with load from metrics-server; the same one if that knows no node."""
        policy = examination.policy.policy
        source = MetricsSource("", type=MetricsType.METRICS_SERVER)
        policy = replace(policy, metrics=source)
        sampled = self._with_samples(replace(examination, policy=PolicyFacts(policy)))
        load = sampled.load
        if isinstance(load, Unanswered):
            return examination
        ages = [sample.age_seconds for seen in load.seen.values() for sample in seen.values()]
        return sampled if any(age is not None for age in ages) else examination

    def _run_facts(self) -> RunFacts:
        settings, in_cluster = self._settings, self._kubernetes.in_cluster
        target = self._kubernetes.target
        mode = intent_of(settings, in_cluster=in_cluster, target=target).mode
        return RunFacts(
            target=target,
            in_cluster=in_cluster,
            evicts=mode is Mode.EVICT,
            loops=settings.loops,
            elects=contends(settings, mode, in_cluster=in_cluster),
            watches=settings.loops and settings.watch is not False,
        )

    def _services(self) -> tuple[FoundService, ...]:
        return find_prometheus(read_services(self._kubernetes, self._request_seconds))

    def _rights(self) -> tuple[FeatureRights, ...]:
        self._tell("Asking for rights")
        namespaces = {
            Where.EVERYWHERE: "",
            Where.OF_STATE: state_namespace(self._settings, self._kubernetes),
            Where.OF_OWN_POD: self._own_namespace,
        }
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            return tuple(
                feature_rights(
                    feature,
                    namespaces[feature.where],
                    pool.map(partial(self._may, namespaces[feature.where]), feature.rights),
                )
                for feature in FEATURES
            )

    def _systems(self, systems: SystemRights) -> tuple[SystemFacts, ...]:
        """The systems that the cluster has; rights are checked only for these."""
        served = self._reader.served_versions(read[0] for read in systems.read.values())
        facts = []
        for (system, read), versions in zip(systems.read.items(), served, strict=True):
            if versions is None:
                raise ObservationError(ObservationSource.CLUSTER, _NO_GROUPS)
            is_read = any(access.version in versions for access in read)
            if is_read or (versions and read[0].group not in GROUPS_OF_EVERY_SERVER):
                facts.append(self._facts_of(system, systems, is_read=is_read))
        return tuple(facts)

    def _node_autoscalers(self) -> Mapping[str, str]:
        """The autoscalers of nodes that the API server knows, each with how it knows them."""
        autoscalers: dict[str, str] = {}
        (versions,) = self._reader.served_versions([NODE_POOLS])
        if versions is None:
            raise ObservationError(ObservationSource.CLUSTER, _NO_GROUPS)
        if versions:
            autoscalers[KARPENTER] = f"{KARPENTER} (by the API group {NODE_POOLS.group})"
        if has_cluster_autoscaler(self._kubernetes, self._request_seconds):
            place = f"{STATUS_NAMESPACE}/{STATUS_NAME}"
            autoscalers[CLUSTER_AUTOSCALER] = f"{CLUSTER_AUTOSCALER} (by ConfigMap {place})"
        return autoscalers

    def _facts_of(self, system: str, systems: SystemRights, *, is_read: bool) -> SystemFacts:
        name = system.lower()
        rights = systems.granted[name] if is_read else ()
        role = f"desched-{systems.name}-{name}"
        feature = Feature(name, rights, Where.EVERYWHERE, f"{systems.folder}/{name}.yaml", role)
        answers = [self._may("", right) for right in rights]
        return SystemFacts(system, is_read, feature_rights(feature, "", answers))

    def _may(self, namespace: str, access: Access) -> bool | None:
        name = NAMES.get(access.resource, "") if namespace and access.verb != "create" else ""
        name = LOGBOOK if access in LOGBOOK_ACCESS else name
        seconds = self._request_seconds
        return reviewed(self._kubernetes, access, namespace, name, deadline_seconds=seconds)

    def _with_load(self, examination: Examination) -> Examination:
        """The examination with the load by its policy, from the first source that has some."""
        if examination.policy.policy.metrics.type.is_sampled:
            return self._with_samples(examination)
        self._tell("Asking Prometheus")
        first: Examination | None = None
        for facts in self._sources(examination):
            looked = self._looked(examination, facts)
            first = first or looked
            if _has_nodes(looked):
                return looked
        return first or examination

    def _with_samples(self, examination: Examination) -> Examination:
        title = examination.policy.policy.metrics.type.in_words
        self._tell(f"Asking {title}")
        metrics = Unanswered(f"The policy reads load from {title}.")
        if self._settings.prometheus_url:
            facts = replace(examination.prometheus, origin=Origin.SETTINGS, invalid=True)
            examination = replace(examination, prometheus=facts)
        cluster = examination.cluster
        if isinstance(cluster, Unanswered):
            return replace(examination, metrics=metrics, load=cluster)
        judged = judged_policy(examination.policy.policy)
        return self._with_answer(
            replace(examination, metrics=metrics), lambda: self._sampled.read_load(cluster, judged)
        )

    def _with_answer(self, examination: Examination, ask: Callable[[], ClusterLoad]) -> Examination:
        """The examination with the load that is asked for, and how far its clock is ahead."""
        began = self._clock.now()
        load = _answered(ask)
        ended = self._clock.now()
        lead = 0.0
        if not isinstance(load, Unanswered):
            lead = lead_seconds(load.server_times, began, ended)
        return replace(examination, at=ended, load=load, load_lead_seconds=lead)

    def _sources(self, examination: Examination) -> Sequence[PrometheusFacts]:
        """Where Prometheus may be: where the settings or the policy name it, or what was found."""
        facts, policy = examination.prometheus, examination.policy.policy
        if facts.address:
            return [facts]
        for url, origin in (
            (self._settings.prometheus_url, Origin.SETTINGS),
            (policy.metrics.address, Origin.POLICY),
        ):
            if url:
                return [replace(facts, address=without_user(url), origin=origin)]
        if policy.metrics.is_searched:
            return [replace(facts, address=_address_of_stack(facts, policy), origin=Origin.STACK)]
        services = facts.found[:MOST_TRIED_SERVICES]
        return [
            replace(facts, address=service.url, origin=Origin.DISCOVERED) for service in services
        ]

    def _looked(self, examination: Examination, facts: PrometheusFacts) -> Examination:
        """The examination with what this Prometheus answers."""
        policy, cluster = examination.policy.policy, examination.cluster
        policy = _read_by(facts, policy)
        if isinstance(cluster, Unanswered):  # only whether it answers
            cluster, policy = ClusterState((), ()), replace(policy, rules=())
        try:
            metrics = self._source.read_metrics(cluster, policy)
        except (ObservationError, ConfigurationError) as error:
            invalid = isinstance(error, ConfigurationError)
            text = first_line(error)
            if invalid and facts.origin is Origin.DISCOVERED:
                text = f"{facts.address} was found, but credentials are not sent to what is found."
            answers = isinstance(error, UnusableAnswer)
            facts = replace(facts, problem=text, invalid=invalid, answers=answers)
            unanswered = Unanswered("Prometheus does not answer.")
            return replace(examination, prometheus=facts, metrics=unanswered, load=unanswered)
        facts = replace(facts, problem="", invalid=False, answers=False)
        if isinstance(examination.cluster, Unanswered):
            unanswered = Unanswered("The cluster could not be read.")
            return replace(examination, prometheus=facts, metrics=unanswered, load=unanswered)
        return self._with_answer(
            replace(examination, prometheus=facts, metrics=metrics),
            lambda: self._source.read_load(cluster, policy),
        )


def _read_by(facts: PrometheusFacts, policy: Policy) -> Policy:
    """The policy with the address that was found where neither it nor the settings name one."""
    if facts.origin is not Origin.DISCOVERED:
        return policy
    return replace(policy, metrics=replace(policy.metrics, address=facts.address))


def feature_rights(
    feature: Feature, namespace: str, answers: Iterable[bool | None]
) -> FeatureRights:
    """What the answers about a feature's rights, in their order, amount to."""
    answered = list(zip(feature.rights, answers, strict=True))
    missing = [access for access, may in answered if may is False]
    return FeatureRights(
        feature.name,
        namespace,
        feature.folder,
        feature.role,
        tuple(str(access) for access in missing),
        tuple(str(access) for access, may in answered if may is None),
        tuple(dict.fromkeys(access.without for access in missing)),
    )


def _answered(ask: Callable[[], T]) -> T | Unanswered:
    try:
        return ask()
    except ObservationError as error:
        return Unanswered(first_line(error))


def first_line(error: Exception) -> str:
    """The sentence without the hints below it; the checks have their own."""
    return str(error).partition("\n")[0]


def _address_of_stack(facts: PrometheusFacts, policy: Policy) -> str:
    """The address that the policy's stack leads to; empty if reading it will show why not."""
    try:
        return service_of_stack(facts.found, policy.metrics).url
    except (ConfigurationError, ObservationError):
        return ""


def _has_nodes(examination: Examination) -> bool:
    metrics = examination.metrics
    if isinstance(metrics, Unanswered):
        return False
    return any(facts.of_nodes and facts.matched for facts in metrics.measures)


def _reads_alike(one: Policy, other: Policy) -> bool:
    """Whether both policies lead to the same queries."""
    return (
        one.metrics == other.metrics
        and one.history == other.history
        and all(
            one.windows(resource) == other.windows(resource)
            and one.destination_windows(resource) == other.destination_windows(resource)
            for resource in Resource
        )
    )
