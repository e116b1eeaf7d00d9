"""`desched tune`: the policy that would have been better in the past of this cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT
from typing import NamedTuple

import msgspec

from desched.cli.command import Command, Invocation
from desched.cli.exit_codes import ExitCode, ended_by
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.past_flags import (
    INSTEAD,
    NOW,
    READING_FLAGS,
    TIME_FLAGS,
    answer_cache,
    given_time,
    step_seconds,
)
from desched.cli.setting_flags import PROMETHEUS, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    if find_spec("optuna") is None:  # which the imports below need
        raise ConfigurationError(
            "The search needs Optuna; install it with `pip install 'desched[tune]'`."
        )
    from datetime import timedelta

    from desched.bootstrap.cluster_tuning import ClustersAim, search_clusters, tuned_clusters
    from desched.bootstrap.past import PastSource, span_of
    from desched.bootstrap.tuning import Aim, Effort, Searcher, judged, past_of, workers_at
    from desched.history.past import Past
    from desched.policy.durations import duration_seconds
    from desched.policy.loading import read_policy
    from desched.service.process.clock import SystemClock
    from desched.service.process.logs import configure_logs
    from desched.service.process.signals import stop_on_signals
    from desched.settings import Settings
    from desched.views.rendering import write_out
    from desched.views.tuned_clusters import print_clusters
    from desched.views.tuned_policy import common_policy_text, policy_text
    from desched.views.tuning import print_tuning, tuning_view
    from desched.whatif.past.run import Span
    from desched.whatif.tuning.replays import Stop
    from desched.whatif.tuning.results import Question, Results, open_results
    from desched.whatif.tuning.space import Space

SHORTEST_HOURS = 12
POLICIES, MOST_POLICIES = 60, 10_000
MOST_MORE = 10.0
BUDGET = "10m"
BEFORE = " before the search had a result"


class Output(NamedTuple):
    """Where the recommended policy goes; without `force` no file is replaced."""

    policy_file: Path | None
    force: bool

    def of(self, cluster: str) -> Output:
        """The file beside it for the policy of a cluster."""
        path = self.policy_file
        return self._replace(policy_file=path and path.with_stem(f"{path.stem}-{cluster}"))

    def write(self, text: str | None) -> None:
        """Write the policy, if there is one and a file for it.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        path = self.policy_file
        if path is None:
            return
        if text is None:
            sys.stderr.write(f"desched: {path} is not written: nothing is recommended.\n")
            return
        self.refuse_to_replace()  # it may have come to exist meanwhile
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror}.") from error
        sys.stderr.write(f"desched: Wrote {path}. Try it with `desched plan --policy {path}`.\n")

    def refuse_to_replace(self) -> None:
        """Raise a ConfigurationError if there is such a file already."""
        path = self.policy_file
        if path is not None and path.exists() and not self.force:
            raise ConfigurationError(f"{path} exists; pass --force to replace it.")


def run(invocation: Invocation) -> int | None:
    """Search, print what was found, and write the recommended policy if that is asked for."""
    page, settings = charts_file(invocation), invocation.settings()
    address, clusters = _workers(invocation), _clusters(invocation, settings)
    output, aim = _output(invocation, clusters), _aim(invocation, settings, clusters)
    source = PastSource(
        invocation.flags.get("kube_state_metrics", ""),
        step_seconds(invocation),
        answer_cache(invocation),
    )
    configure_logs(settings.log_format, settings.log_level, sys.stderr)
    if clusters:
        fleet = Fleet(clusters, _aims(aim, clusters), source, address)
        return _run_clusters(settings, fleet, output)
    clock, stop = SystemClock(), Stop()
    with workers_at(address) as start:  # first: to read the past takes minutes
        past = past_of(settings, aim, source, clock)
        with stop_on_signals(stop.request) as request, start({"": past}, stop) as workers:
            searcher = Searcher({"": past}, workers, stop, clock)
            found = searcher.search(aim)
    if found is None:
        return ended_by(request.received or SIGINT, BEFORE)
    shown, best = judged(past, found, clock), found.recommendation
    write_out(settings.output, shown, print_tuning)
    if page is not None:
        from desched.views.pages.tuning_page import tuning_page  # noqa: PLC0415  (optional)

        write_page(page, tuning_page(tuning_view(shown)))
    output.write(policy_text(aim.space, best.candidate.values, shown) if best else None)
    return ExitCode.OBSERVATION if searcher.lost else None


class Fleet(NamedTuple):
    """Several clusters by name with the addresses of their Prometheus, and what to search there."""

    addresses: Mapping[str, str]
    aims: ClustersAim
    source: PastSource
    workers: str


def _run_clusters(settings: Settings, fleet: Fleet, output: Output) -> int | None:
    clock, stop, aims = SystemClock(), Stop(), fleet.aims
    pasts: dict[str, Past] = {}
    with workers_at(fleet.workers) as start:
        for name, address in fleet.addresses.items():
            there = settings.model_copy(update={"prometheus_url": address})
            pasts[name] = past_of(there, aims.of_each[name], fleet.source, clock)
        with stop_on_signals(stop.request) as request, start(pasts, stop) as workers:
            searcher = Searcher(pasts, workers, stop, clock)
            found = search_clusters(searcher, pasts, aims, lambda: request.received is not None)
    if not found.of_each:
        return ended_by(request.received or SIGINT, BEFORE)
    shown = tuned_clusters(pasts, aims, found, clock)
    write_out(settings.output, shown, print_clusters)
    space = aims.common.space
    for each in shown.clusters:
        best = found.of_each[each.cluster].recommendation
        text = policy_text(space, best.candidate.values, each.tuned) if best else None
        output.of(each.cluster).write(text)
    best = found.common.recommendation if found.common else None
    output.write(common_policy_text(space, best.candidate.values, shown) if best else None)
    return ExitCode.OBSERVATION if searcher.lost else None


def _clusters(invocation: Invocation, settings: Settings) -> Mapping[str, str]:
    """The addresses of Prometheus by cluster, none without --cluster."""
    found: dict[str, str] = {}
    for text in invocation.flags.get("clusters", ()):
        name, _, address = text.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or not address:
            raise ConfigurationError(
                f'--cluster: "{text}" must be a name and an address, such as '
                "prod=http://prometheus.prod.example:9090."
            )
        if name in found:
            raise ConfigurationError(f"--cluster names {name} twice; name it once.")
        found[name] = address
    if len(found) == 1:
        raise ConfigurationError("--cluster needs two clusters; use --prometheus-url for one.")
    for flag, given in (
        ("--prometheus-url", settings.prometheus_url),
        ("--report", invocation.flags.get("report")),
    ):
        if found and given:
            raise ConfigurationError(f"{flag} has no effect with --cluster; omit it.")
    return found


def _aims(aim: Aim, clusters: Mapping[str, str]) -> ClustersAim:
    """Half of the time is for the common policy, which takes most of it."""
    seconds = max(2 * len(clusters), aim.effort.seconds)
    common = aim._replace(effort=aim.effort._replace(seconds=seconds // 2))
    each = aim.effort._replace(seconds=seconds // (2 * len(clusters)))
    of_each = {name: aim._replace(effort=each) for name in clusters}
    if aim.results is not None:
        path, head = aim.results.path, aim.results.head
        for name in clusters:
            question = msgspec.structs.replace(head.question, clusters=(name,))
            results = _opened(Path(f"{path}.{name}"), question, aim.span)
            if results.span != aim.span:
                raise ConfigurationError(
                    f"--results: {results.path} and {path} are about different times; name "
                    "another file."
                )
            of_each[name] = of_each[name]._replace(results=results)
    return ClustersAim(of_each, common)


def _workers(invocation: Invocation) -> str:
    """The address of the scheduler, "" for the processors of this machine."""
    address: str = invocation.flags.get("workers", "")
    if address and not re.search(r"[^/]:\d+$", address):
        raise ConfigurationError(
            f"--workers {address}: write host and port of a Dask scheduler, such as dask:8786."
        )
    if address and find_spec("distributed") is None:
        raise ConfigurationError(
            "--workers needs Dask; install it with `pip install 'desched[tune,fleet]'`."
        )
    return address


def _aim(invocation: Invocation, settings: Settings, clusters: Iterable[str]) -> Aim:
    flags, effort = invocation.flags, _effort(invocation)
    path = Path(flags["today"]) if "today" in flags else settings.policy
    if path is None:
        raise ConfigurationError(
            "No policy is given; name today's with --policy FILE (DESCHED_POLICY)."
        )
    space = Space(read_policy(path), flags.get("vary", ()))
    interval, step = settings.interval.total_seconds(), step_seconds(invocation)
    begin, end = given_time(invocation, SystemClock().now())
    if end - begin < timedelta(hours=SHORTEST_HOURS):
        raise ConfigurationError(
            f"--since and --until must be at least {SHORTEST_HOURS}h apart, and better several "
            "days: policies are searched on the first two thirds and judged on the rest."
        )
    span = span_of(begin, end, interval, step)
    if "results" not in flags:
        return Aim(space, span, effort, None)
    question = Question(
        policy=space.today.digest,
        varied=tuple(each.text for each in space.dimensions),
        since=flags["since"],
        until=flags.get("until", NOW),
        interval_seconds=interval,
        step_seconds=step,
        clusters=tuple(sorted(clusters)),
    )
    results = _opened(Path(flags["results"]), question, span)
    return Aim(space, results.span, effort, results)


def _opened(path: Path, question: Question, span: Span) -> Results:
    """The results in a file; the user learns of those that the search continues."""
    results = open_results(path, question, span)
    if results.tried:
        began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in results.span[:2])
        sys.stderr.write(
            f"desched: Continuing {results.path} with {len(results.tried)} known policies, for "
            f"{began} to {ended} UTC.\n"
        )
    return results


def _effort(invocation: Invocation) -> Effort:
    flags = invocation.flags
    policies = flags.get("policies", POLICIES)
    if not MOST_POLICIES >= policies > 1:
        raise ConfigurationError(f"--policies must be from 2 to {MOST_POLICIES}.")
    try:
        seconds = duration_seconds(flags.get("budget", BUDGET))
    except ValueError as error:
        raise ConfigurationError(f"--budget {error}.") from error
    if not seconds:
        raise ConfigurationError("--budget must be longer than 0s, such as 10m.")
    try:
        more = float(flags.get("more_evictions", "0").removesuffix("%")) / 100
    except ValueError:
        more = -1
    if not 0 <= more <= MOST_MORE:
        raise ConfigurationError(
            f"--more-evictions must be a percentage from 0% to {MOST_MORE:.0%}, such as 20%."
        )
    return Effort(policies, seconds, more)


def _output(invocation: Invocation, clusters: Iterable[str]) -> Output:
    path, force = invocation.flags.get("write_policy"), "force" in invocation.flags
    if force and path is None:
        raise ConfigurationError("--force has no effect without --write-policy; omit it.")
    output = Output(Path(path) if path else None, force)
    for each in (output, *map(output.of, clusters)):
        each.refuse_to_replace()
    return output


COMMAND = Command(
    "tune",
    details="It replays that past with many policies, and recommends one if, also on days that "
    "the search has not seen, a fifth less overload is left with no more evictions.",
    examples={
        "desched tune --since 7d --policy a.yaml --write-policy b.yaml": "find a better policy",
        "desched tune --since 7d --policy a.yaml --vary sustainedFor=5m..30m": "vary one key",
    },
    settings=("output", "interval", "kubeconfig", "context", *PROMETHEUS),
    parameters=(
        *TIME_FLAGS,
        own_flag("--policy FILE", "Today's policy.", name="today"),
        own_flag(
            "--vary KEY=VALUES",
            "Values of a key: LOW..HIGH or A,B,C; repeatable.",
            multiple=True,
        ),
        own_flag("--budget DURATION", f"How long to search. Default: {BUDGET}."),
        own_flag("--policies NUMBER", f"How many to try. Default: {POLICIES}.", type=int),
        own_flag("--more-evictions PERCENT", "How many more are accepted. Default: 0%."),
        own_flag("--results FILE", "Keep results there, and continue them."),
        own_flag(
            "--cluster NAME=URL",
            "A cluster by its Prometheus; repeat it.",
            name="clusters",
            multiple=True,
        ),
        own_flag("--workers HOST:PORT", "A Dask scheduler whose workers replay."),
        own_flag("--write-policy FILE", "Write the recommended policy."),
        own_flag("--force", "Replace the file of --write-policy if it exists."),
        *READING_FLAGS,
        REPORT,
    ),
    refused=INSTEAD,
)
