"""All that was found out about a cluster before it is judged."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from shlex import quote

import msgspec

from desched.adapters.prometheus.stacks import FoundService
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.measures import MetricsFacts
from desched.model.snapshot import Snapshot
from desched.model.stored_state import StoredState
from desched.policy.policy import Policy


class Unanswered(msgspec.Struct, frozen=True):
    """A question that has no answer, with a sentence that tells why."""

    why: str


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the run would be whose start is in question.

    `target` is the cluster and the account; `account` is its name to the API server, which is asked
    for outside the cluster where it lacks a right. `loops` is true for a service.
    """

    target: str
    in_cluster: bool
    evicts: bool
    loops: bool
    elects: bool
    watches: bool
    account: str = ""


class FeatureRights(msgspec.Struct, frozen=True):
    """The rights that a feature lacks, and those that could not be asked for.

    `namespace` is empty for rights in all of them; `without` is what happens without the missing
    ones; `folder` is what grants them to desched's own account, `role` what it has for that.
    """

    feature: str
    namespace: str
    folder: str
    role: str = ""
    missing: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def binding(self, account: str) -> str:
        """The command that grants them to another account."""
        kind = "role" if self.namespace else "clusterrole"
        place = f" --namespace {self.namespace}" if self.namespace else ""
        return (
            f"kubectl create {kind}binding my-{self.role}{place} --{kind}={self.role} "
            f"--user={quote(account) if account else 'USER'}"
        )


class SystemFacts(msgspec.Struct, frozen=True):
    """A system of AI clusters whose API group the server has.

    Without `is_read` it has its objects in no version that desched reads.
    """

    system: str
    is_read: bool
    rights: FeatureRights


class PolicyFacts(msgspec.Struct, frozen=True):
    """The policy that is judged.

    Without a `source` none is given, and it is a proposal; with a `problem` the given one is
    invalid, and this one only says what to ask Prometheus for. `written_to` is the file that gets
    the proposal, empty for none.
    """

    policy: Policy
    source: str = ""
    warnings: tuple[str, ...] = ()
    problem: str = ""
    written_to: str = ""


class Origin(StrEnum):
    """Where the address of Prometheus comes from."""

    NOWHERE = "nowhere"
    SETTINGS = "--prometheus-url"
    POLICY = "metrics.address"
    STACK = "metrics.stack"
    DISCOVERED = "discovered"


class PrometheusFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The Prometheus that is read, and those that Services of known stacks lead to.

    `address` is without credentials. `problem` is why it cannot be read; `invalid` if that is the
    fault of the settings or the policy, `answers` if something answers there, but without data.
    """

    address: str = ""
    origin: Origin = Origin.NOWHERE
    services: tuple[FoundService, ...] | Unanswered = ()
    problem: str = ""
    invalid: bool = False
    answers: bool = False

    @property
    def found(self) -> Sequence[FoundService]:
        """The Services, as far as they are known."""
        return () if isinstance(self.services, Unanswered) else self.services


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """Answers to all questions; the leads are those of a Snapshot.

    `systems` are those that the cluster has, by the name of their `SystemRights`.
    `node_autoscalers` are those that the API server knows, each with its place for people.
    """

    at: datetime
    run: RunFacts
    server_version: str | Unanswered
    rights: tuple[FeatureRights, ...]
    policy: PolicyFacts
    cluster: ClusterState | Unanswered
    prometheus: PrometheusFacts
    metrics: MetricsFacts | Unanswered
    load: ClusterLoad | Unanswered
    state: StoredState | Unanswered
    systems: Mapping[str, tuple[SystemFacts, ...] | Unanswered] = {}
    node_autoscalers: Mapping[str, str] | Unanswered = {}
    cluster_lead_seconds: float = 0.0
    load_lead_seconds: float = 0.0

    @property
    def lacks_rights(self) -> bool:
        """Whether the account may not do something that desched could."""
        systems = [each for each in self.systems.values() if not isinstance(each, Unanswered)]
        of_systems = (facts.rights for system in systems for facts in system)
        return any(rights.missing for rights in (*self.rights, *of_systems))

    @property
    def snapshot(self) -> Snapshot | None:
        """The cluster with its load, None if one of them is not known."""
        if isinstance(self.cluster, Unanswered) or isinstance(self.load, Unanswered):
            return None
        leads = self.cluster_lead_seconds, self.load_lead_seconds
        return Snapshot(self.cluster, self.load, self.at, *leads)
