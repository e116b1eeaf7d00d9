"""Services of desched as processes, and what the API server says that each of them did."""

import base64
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from desched.adapters.kubernetes.logbook_store import CONFIG_MAP as LOGBOOK
from tests.controlplane.forks import Fork, Prepare, as_it_is
from tests.controlplane.installation import COMMAND, WINDOW_SECONDS
from tests.controlplane.logs import events_in
from tests.controlplane.manifests import Object
from tests.controlplane.process import Child, Server
from tests.controlplane.sites import SITE, Sites

RENEW_DEADLINE_SECONDS = 7
SHORT_LEASE = (
    *("--lease-duration", "10s"),
    *("--renew-deadline", f"{RENEW_DEADLINE_SECONDS}s"),
    *("--retry-period", "1s"),
)
"""So long that a busy machine does not end it between a leader's look at it and its eviction."""

_CREDENTIAL = "authentication.kubernetes.io/credential-id"


class Replica(Server):
    """A service of desched; the API server knows it from others by its token.

    It is forked, after `prepare`; without that it is a program of its own.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        directory: Path,
        prepare: Prepare | None = as_it_is,
        **variables: str,
    ) -> None:
        self._prepare = prepare
        super().__init__(name, command, directory, {"DESCHED_POD_NAME": name, **variables})

    def _launched(self, command: Sequence[str | Path], variables: Mapping[str, str]) -> Child:
        if self._prepare is None:
            return super()._launched(command, variables)
        return Fork([*map(str, command[len(COMMAND) :])], self.log, variables, self._prepare)

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has just ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def events(self, *names: str) -> list[Object]:
        """What it has logged of these events, oldest first."""
        return [event for event in events_in(self.log) if event["event"] in names]

    @property
    def cycles(self) -> list[Object]:
        """The `cycle.completed` lines so far."""
        return self.events("cycle.completed")

    @property
    def leads(self) -> bool:
        """Whether it says that it may act."""
        changes = self.events("leadership.gained", "leadership.lost")
        return bool(changes) and changes[-1]["event"] == "leadership.gained"

    def wait_to_lead(self) -> None:
        """Until it may act."""
        self.wait_until("it leads", lambda: self.leads)

    def wait_for_cycles(self, count: int) -> None:
        """So many more cycles."""
        enough = len(self.cycles) + count
        self.wait_until(f"{count} more cycles", lambda: len(self.cycles) >= enough)

    def is_done_since(self, moment: datetime) -> bool:
        """Whether its last cycle found nothing to do once every window shows what was done then.

        A node that a busy machine did not measure in time may still need something.
        """
        due = moment + timedelta(seconds=WINDOW_SECONDS + 1)
        return any(
            datetime.fromisoformat(last["timestamp"]) > due
            and last["result"] == "nothing_to_do"
            and last.keys().isdisjoint({"in_flight", "unknown"})
            for last in self.cycles[-1:]
        )

    def freeze(self) -> None:
        """As a machine does that stalls, or that migrates."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had happened."""
        self.signal(signal.SIGCONT)


class Request(NamedTuple):
    """One request of a replica, as in the audit log."""

    replica: str
    what: str
    name: str
    began: datetime
    ended: datetime
    code: int
    body: Any

    @property
    def done(self) -> bool:
        """Whether it took effect."""
        return self.code in {200, 201}

    @property
    def logs(self) -> bool:
        """Whether it writes the logbook, by which nothing decides."""
        return self.name == LOGBOOK or (
            isinstance(self.body, dict) and self.body.get("metadata", {}).get("name") == LOGBOOK
        )


class Replicas:
    """The replicas that act on one site, past ones too, with a state of their own."""

    def __init__(self, sites: Sites, site: str, **load_aware: Any) -> None:
        self.sites = sites
        self.site = site
        self.prepare: Prepare = as_it_is
        self._load_aware = {"nodeSelector": f"{SITE}={site}", **load_aware}
        self.all: dict[str, Replica] = {}
        self._names: dict[str, str] = {}
        """Of the replicas, by their credentials; known before a replica asks for anything."""
        self._requests: dict[str, Request | None] = {}
        """By the audit's identifier, None where others made it."""

    def start(self, server: str = "", *flags: str) -> Replica:
        """A further replica, which asks the API server at this URL if one is given."""
        name = f"{self.site}-{len(self.all) + 1}"
        kubeconfig, credential = self._kubeconfig(name, server)
        self._names[credential] = name
        command = self.sites.arguments(
            *("--evict", "--interval", "2s", "--log-format", "json"),
            *("--listen-address", "127.0.0.1:0", "--state-namespace", self.site),
            *(flags or SHORT_LEASE),
            policy=self.sites.policy(self.site, **self._load_aware),
            kubeconfig=kubeconfig,
        )
        replica = Replica(name, command, self.sites.directory, self.prepare)
        self.all[name] = replica
        return replica

    def stop(self) -> None:
        """End all that run."""
        for replica in self.all.values():
            replica.stop()

    def state(self) -> Object:
        """What `desched status` shows of the state."""
        flags = ("--state-namespace", self.site, "--output", "json")
        state: Object = json.loads(self.sites.command("status", *flags).stdout)["state"]
        return state

    def requests(self) -> list[Request]:
        """What the replicas asked for that can be told from what others did, oldest first."""
        account = self.sites.account
        events = self.sites.plane.audit_events(account["namespace"], account["name"])
        for event in events:
            if event["auditID"] not in self._requests:
                self._requests[event["auditID"]] = self.request_in(event)
        found = filter(None, self._requests.values())
        return sorted(found, key=lambda request: request.began)

    def request_in(self, event: Object) -> Request | None:
        """A replica's request from its event in the audit log, None where others made it."""
        (credential,) = event["user"].get("extra", {}).get(_CREDENTIAL, [""])
        name = self._names.get(credential)
        return None if name is None else _request(name, event)

    def evictions(self, replica: Replica | None = None) -> list[Request]:
        """The requests to evict, of one replica or of all."""
        wanted = {replica.name} if replica else self.all.keys()
        return [
            r for r in self.requests() if r.what == "create pods/eviction" and r.replica in wanted
        ]

    def _kubeconfig(self, name: str, server: str) -> tuple[Path, str]:
        """With a token of its own, and the name under which the audit log knows it."""
        token = self.sites.new_token()
        path = self.sites.kubeconfig_at(server or self.sites.plane.url, name, token=token)
        claims = token.split(".")[1]
        claims += "=" * (-len(claims) % 4)
        return path, f"JTI={json.loads(base64.urlsafe_b64decode(claims))['jti']}"


def _request(replica: str, event: Object) -> Request:
    about = event.get("objectRef", {})
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Request(
        replica,
        f"{event['verb']} {resource}",
        about.get("name", ""),
        datetime.fromisoformat(event["requestReceivedTimestamp"]),
        datetime.fromisoformat(event["stageTimestamp"]),
        event["responseStatus"]["code"],
        event.get("requestObject"),
    )


_WRITES_LEASE = {"create leases", "patch leases"}
_WRITES_STATE = {"create configmaps", "patch configmaps"}


def check_that_one_acted(
    requests: Sequence[Request], longest_tenure_seconds: float = RENEW_DEADLINE_SECONDS
) -> None:
    """Each eviction was the leader's, was written down before, and was alone in its workload."""
    evictions = [request for request in requests if request.what == "create pods/eviction"]
    for eviction in evictions:
        leases = _before(_WRITES_LEASE, requests, eviction)
        assert any(
            lease.body["spec"]["holderIdentity"].startswith(f"{eviction.replica}_")
            and (eviction.began - lease.began).total_seconds() <= longest_tenure_seconds
            for lease in leases
        ), (eviction, leases)
        writes = _before(_WRITES_STATE, requests, eviction)
        assert any(
            written.replica == eviction.replica and _is_alone_in(written, eviction)
            for written in writes
        ), (eviction, writes)
    gone = [eviction.name for eviction in evictions if eviction.done]
    assert len(gone) == len(set(gone))


def _before(kinds: set[str], requests: Sequence[Request], later: Request) -> list[Request]:
    """The last of these that had taken effect when another began, and those still under way.

    The audit log stamps the end of a request after its answer was sent, on a busy machine long
    after: what was under way by the log may have been known to whoever asked.
    """
    begun = [
        r for r in requests if r.what in kinds and r.done and not r.logs and r.began <= later.began
    ]
    ended = [r for r in begun if r.ended <= later.began]
    under_way = [r for r in begun if r.ended > later.began]
    return [*sorted(ended, key=lambda request: request.ended)[-1:], *under_way]


def _is_alone_in(write: Request, eviction: Request) -> bool:
    """Whether what was written has the eviction, and no other of its workload in flight."""
    in_flight = list(_in_flight(write))
    of_it = [record for record in in_flight if record["pod"]["name"] == eviction.name]
    workloads = [record["workload_uid"] for record in in_flight]
    return len(of_it) == 1 and workloads.count(of_it[0]["workload_uid"]) == 1


def _in_flight(write: Request) -> Iterator[Object]:
    state = json.loads(write.body["data"]["state.json"])["state"]
    return (record for record in state["evictions"] if "result" not in record)
