"""How the process runs: one field for each flag and its `DESCHED_*` environment variable.

Settings are fixed until the process ends. What desched may evict is policy, not settings.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from desched.errors import ConfigurationError
from desched.policy.durations import duration_seconds, duration_text

ENV_PREFIX = "DESCHED_"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Option:
    """How a field appears to people; its docstring is the help.

    `environment_only` is for secrets, because everyone on the machine can read arguments, and for
    values that come from a pod's manifest.
    """

    group: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    environment_only: bool = False


MODE = "Mode"
POLICY = "Policy"
CLUSTER = "Cluster"
PROMETHEUS = "Prometheus"
TIMING = "Timing"
REPLICAS = "Replicas"
OUTPUT = "Output"


def _of_text(read: Callable[[str], Any]) -> BeforeValidator:
    """Reads text; a value that code passes stays as it is."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _duration(value: str) -> timedelta:
    seconds = 0 if value.strip() == "0" else duration_seconds(value)
    if seconds < 1:
        raise ValueError("is too short; it must be at least 1s")
    return timedelta(seconds=seconds)


def service_url(value: str) -> str:
    """The URL of a running service.

    Raises:
        ValueError: it is no http or https URL.
    """
    parts = urlsplit(value.strip())
    usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    if not usable or set("@?#") & set(value):
        raise ValueError(
            "write the URL of a service like http://localhost:10280, or the name of a Kubernetes "
            "Service such as desched, to ask through the API server"
        )
    return value


def service_name(value: str) -> str | None:
    """The name in `NAME` or `service/NAME`, None for anything else."""
    found = re.fullmatch(r"(?:service/)?([a-z]([-a-z0-9]{0,61}[a-z0-9])?)", value.strip())
    return found[1] if found else None


def _url(value: str) -> str:
    found = "" if set("@?#") & set(value) else f'"{value}" '  # it may contain a secret
    complaint = (
        f"{found}is not an http or https URL with a host; write it like http://localhost:9090"
    )
    try:
        parts = urlsplit(value.strip())
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        raise ValueError(complaint) from None
    if parts.password is not None:
        raise ValueError(
            "must not contain a password; use --prometheus-username and DESCHED_PROMETHEUS_PASSWORD"
        )
    if not usable:
        raise ValueError(complaint)
    return value


def _namespace(value: str) -> str:
    if not _NAMESPACE.fullmatch(value):
        raise ValueError(
            "is no name of a namespace; write up to 63 lower-case letters, digits and hyphens, "
            "such as desched-system"
        )
    return value


def _origins(value: str) -> str:
    trusted_origins(value)
    return value


def _headers(value: str) -> str:
    parse_headers(value)
    return value


Duration = Annotated[timedelta, _of_text(_duration)]
Headers = Annotated[SecretStr, _of_text(_headers)]


class Settings(BaseSettings):
    """Settings from the environment and from flags, which take precedence."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
        use_attribute_docstrings=True,
    )

    dry_run: Annotated[bool, Option(MODE)] = False
    """Plan and print the report, but never evict. Runs once, or repeatedly with --interval or
    --cron."""
    evict: Annotated[bool, Option(MODE)] = False
    """Evict also from outside the cluster, in the context that is named."""
    once: Annotated[bool, Option(MODE)] = False
    """Run one cycle and exit."""

    policy: Annotated[Path | None, Option(POLICY, "FILE", ("--policy-config-file",))] = None
    """The DeschedulerPolicy, bare or in a ConfigMap manifest; read again in every cycle. Examples
    are in policies/. For a single cycle also configmap/NAME or NAMESPACE/configmap/NAME, which
    reads the cluster's. Commands that change nothing read that of the installation,
    configmap/desched-policy, unless one is given."""

    kubeconfig: Annotated[
        Path | None, Option(CLUSTER, "FILE", ("--client-connection-kubeconfig",))
    ] = None
    """The kubeconfig. By default the account of desched's pod, or else the default kubeconfig."""
    context: Annotated[str | None, Option(CLUSTER, "NAME")] = None
    """The context of the kubeconfig; by default its current context."""
    api_server_timeout: Annotated[Duration, Option(CLUSTER, "DURATION")] = timedelta(seconds=30)
    """The time limit of a request to the API server, including retries."""
    watch: Annotated[bool | None, Option(CLUSTER)] = None
    """Keep the cluster's objects up to date by watches instead of listing them all in each cycle.
    By default on for a service."""
    pod_namespace: Annotated[str | None, Option(CLUSTER, environment_only=True)] = None
    """The namespace of desched's own pod, for Events about itself."""
    pod_name: Annotated[str | None, Option(CLUSTER, environment_only=True)] = None
    """The name of desched's own pod."""

    prometheus_url: Annotated[str | None, _of_text(_url), Option(PROMETHEUS, "URL")] = None
    """The URL of Prometheus; overrides metrics.address of the policy."""
    prometheus_trusted_addresses: Annotated[
        str | None, _of_text(_origins), Option(PROMETHEUS, "URL,URL")
    ] = None
    """The addresses, as scheme, host and port, to which credentials go if the policy names one of
    them; without this they go only to --prometheus-url."""
    prometheus_timeout: Annotated[Duration, Option(PROMETHEUS, "DURATION")] = timedelta(seconds=30)
    """The time limit of a query, including retries."""
    prometheus_username: Annotated[str | None, Option(PROMETHEUS, "NAME")] = None
    """The user name for basic authentication."""
    prometheus_password: Annotated[SecretStr | None, Option(PROMETHEUS, environment_only=True)] = (
        None
    )
    """The password for basic authentication."""
    prometheus_password_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = None
    """The file with the password for basic authentication."""
    prometheus_bearer_token: Annotated[
        SecretStr | None, Option(PROMETHEUS, environment_only=True)
    ] = None
    """The bearer token."""
    prometheus_bearer_token_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = None
    """The file with the bearer token; read again when it changes."""
    prometheus_client_cert_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = None
    """The client certificate (PEM)."""
    prometheus_client_key_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = None
    """The key of the client certificate (PEM)."""
    prometheus_ca_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = None
    """The certificate authorities to trust instead of the system's (PEM)."""
    prometheus_headers: Annotated[Headers | None, Option(PROMETHEUS, environment_only=True)] = None
    """Additional headers as Name=value,Name=value or a JSON object, such as
    X-Scope-OrgID=team-a."""
    prometheus_headers_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = None
    """The file with additional headers such as X-Scope-OrgID: team-a, one per line."""
    prometheus_insecure_skip_verify: Annotated[bool, Option(PROMETHEUS)] = False
    """Do not verify Prometheus' certificate."""
    prometheus_allow_insecure_credentials: Annotated[bool, Option(PROMETHEUS)] = False
    """Send credentials over plain http, where others on the network can read them. To localhost
    they are always sent."""

    interval: Annotated[Duration, Option(TIMING, "DURATION", ("--descheduling-interval",))] = (
        timedelta(minutes=5)
    )
    """The time from one cycle to the next. After the first, cycles begin at multiples of it, as at
    12:00 and 12:05 UTC."""
    cron: Annotated[
        str | None, Option(TIMING, "EXPRESSION", ("--descheduling-interval-cron-expression",))
    ] = None
    """Run cycles by a cron expression instead, such as '*/10 * * * *', @hourly or '@every 10m'; the
    first cycle still runs at once."""
    timezone: Annotated[str, Option(TIMING, "ZONE")] = "UTC"
    """The time zone of the cron expression, such as Europe/Berlin."""
    cycle_deadline: Annotated[Duration, Option(TIMING, "DURATION")] = timedelta(minutes=15)
    """The time after which a running cycle makes /healthz fail."""

    leader_elect: Annotated[bool | None, Option(REPLICAS)] = None
    """Evict only while holding a Lease, so that one of several replicas acts. By default on if
    desched evicts or runs as a service in a cluster, otherwise off."""
    lease_duration: Annotated[
        Duration, Option(REPLICAS, "DURATION", ("--leader-elect-lease-duration",))
    ] = timedelta(seconds=15)
    """The time without renewal after which another replica takes the Lease."""
    renew_deadline: Annotated[
        Duration, Option(REPLICAS, "DURATION", ("--leader-elect-renew-deadline",))
    ] = timedelta(seconds=10)
    """The time after its last renewal at which the holder of the Lease stops acting."""
    retry_period: Annotated[
        Duration, Option(REPLICAS, "DURATION", ("--leader-elect-retry-period",))
    ] = timedelta(seconds=2)
    """The time from one attempt to take or renew the Lease to the next."""
    state_namespace: Annotated[str | None, _of_text(_namespace), Option(REPLICAS, "NAME")] = None
    """The namespace of desched's Lease and state; by default that of its own pod, or else
    desched-system."""
    logbook: Annotated[bool | None, Option(REPLICAS)] = None
    """Keep what cycles did for `desched report` and `desched history`, in the ConfigMap
    desched-logbook beside the state. By default on for a service in a cluster."""

    output: Annotated[Literal["table", "json", "yaml"] | None, Option(OUTPUT, aliases=("-o",))] = (
        None
    )
    """The format of reports on standard output. By default a table; a service without a terminal
    prints none."""
    audit_log: Annotated[str | None, Option(OUTPUT, "FILE")] = None
    """The file to append a JSON line to for each eviction and for its result; - is standard
    output."""
    log_format: Annotated[Literal["auto", "json", "console"], Option(OUTPUT)] = "auto"
    """The format of the log on standard error; auto is JSON for a service that has no terminal."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Option(OUTPUT)] = "info"
    """The lowest level that is logged."""
    listen_address: Annotated[str | None, Option(OUTPUT, "HOST:PORT")] = None
    """The address of /metrics, /healthz and /readyz of a service; by default :10258 in a cluster
    and 127.0.0.1:10258 outside."""
    pages_address: Annotated[str | None, Option(OUTPUT, "HOST:PORT")] = None
    """The address of the page at /, and of /status, /explain and /load-samples of a service; by
    default --listen-address if that is on loopback, and else 127.0.0.1:10280, which
    `kubectl port-forward` reaches."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags take precedence over the environment; .env files are not read."""
        del settings_cls, dotenv_settings, file_secret_settings
        if isinstance(env_settings, EnvSettingsSource):
            _refuse_unknown_variables(cls, env_settings.env_vars)
        return init_settings, env_settings

    @model_validator(mode="after")
    def _without_contradictions(self) -> Self:
        for one, other in _EITHER_OR:
            if self.given(one) and self.given(other):
                raise ValueError(
                    f"{_full_name(one)} and {_full_name(other)} contradict each other; keep one."
                )
        for longer, shorter in _LONGER_THAN:
            if getattr(self, longer) <= getattr(self, shorter):
                raise ValueError(
                    f"{_full_name(longer)} must be longer than {_full_name(shorter)}: they are "
                    f"{_duration_of(self, longer)} and {_duration_of(self, shorter)}."
                )
        return self

    def given(self, field: str) -> bool:
        """Whether a flag or the environment set the field."""
        return field in self.model_fields_set and getattr(self, field) not in {None, False}

    @property
    def loops(self) -> bool:
        """Whether it runs cycles until it is stopped, rather than one."""
        if self.once:
            return False
        return not self.dry_run or self.given("interval") or self.given("cron")


_EITHER_OR = (
    ("dry_run", "evict"),
    ("interval", "cron"),
    ("prometheus_password", "prometheus_password_file"),
    ("prometheus_headers", "prometheus_headers_file"),
)
_LONGER_THAN = (("lease_duration", "renew_deadline"), ("renew_deadline", "retry_period"))


def load_settings(flags: Mapping[str, Any]) -> Settings:
    """Settings from the given flags, by field name, and the environment.

    Raises:
        ConfigurationError: a value is invalid; the text has one line for each.
    """
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        raise ConfigurationError("\n".join(map(_sentence, error.errors()))) from None
    _refuse_idle_flags(flags, settings)
    return settings


def _refuse_idle_flags(flags: Mapping[str, Any], settings: Settings) -> None:
    """Refuse flags without effect; variables may be set for other runs."""
    idle = {
        "timezone": (settings.cron is None, "has no effect without --cron"),
        "interval": (settings.once, "has no effect with --once, which runs one cycle"),
        "watch": (not settings.loops, "has no effect for a single cycle, which lists"),
        "cron": (settings.once, "has no effect with --once, which runs one cycle"),
        "listen_address": (not settings.loops, "has no effect for a single cycle"),
        "pages_address": (not settings.loops, "has no effect for a single cycle"),
    }
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        idle[name] = (settings.leader_elect is False, "has no effect with --leader-elect=false")
    for name, (is_idle, why) in idle.items():
        if name in flags and is_idle:
            raise ConfigurationError(f"{flag_of(name)} {why}; omit it.")


def option_of(field: FieldInfo) -> Option:
    """How a field of Settings appears to people."""
    return next(item for item in field.metadata if isinstance(item, Option))


def flag_of(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return ENV_PREFIX + name.upper()


Origin = tuple[str, str, int]
"""Scheme, host and port."""


def origin_of(url: str) -> Origin:
    """Where requests to an http or https URL go, whatever their path."""
    parts = urlsplit(url.strip())
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return parts.scheme, parts.hostname or "", port


def trusted_origins(text: str) -> frozenset[Origin]:
    """The origins in a list that is separated by commas.

    Raises:
        ValueError: an item is not an http or https URL of scheme, host and port only.
    """
    urls = [_url(item.strip()) for item in text.split(",") if item.strip()]
    if any(urlsplit(url).path.strip("/") or set("@?#") & set(url) for url in urls):
        raise ValueError("must list scheme, host and port only, such as https://prometheus:9090")
    return frozenset(map(origin_of, urls))


def parse_headers(text: str) -> dict[str, str]:
    """HTTP headers from a JSON object, `Name: value` lines, or `Name=value` items.

    Commas or line ends separate items; the value after a colon extends to the end of the line.

    Raises:
        ValueError: the text is none of these; it is not repeated, because it may be secret.
    """
    complaint = (
        'must be like "Name=value,Name=value", a JSON object of strings, or lines "Name: value"'
    )
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            raise ValueError(complaint) from None
    else:
        pairs = [_HEADER_ITEM.fullmatch(item) for item in _header_items(text)]
        if not all(pairs):
            raise ValueError(complaint)
        found = {pair[1]: pair[2] for pair in pairs if pair}
    headers = {str(name).strip(): value for name, value in found.items()}
    if not all(_HEADER_NAME.fullmatch(name) for name in headers) or not all(
        isinstance(value, str) and value.isprintable() for value in headers.values()
    ):
        raise ValueError(complaint)
    return {name: value.strip() for name, value in headers.items()}


def _header_items(text: str) -> Iterator[str]:
    for line in filter(None, map(str.strip, text.splitlines())):
        if _HEADER_LINE.match(line):
            yield line
        else:
            yield from filter(None, map(str.strip, line.split(",")))


_HEADER_LINE = re.compile(r"[^=,:\s]+:")
_HEADER_ITEM = re.compile(r"([^=:]*?)\s*[=:]\s*(.*)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_SERVICE_LINK = re.compile(
    rf"{ENV_PREFIX}(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""Variables that Kubernetes sets in each pod for a Service named desched or desched-something."""


def _refuse_unknown_variables(
    settings: type[BaseSettings], environment: Mapping[str, str | None]
) -> None:
    """Refuse unknown variables: with a misspelt DESCHED_DRY_RUN, desched would evict."""
    known = {variable_of(name) for name in settings.model_fields}
    for variable in sorted(name.upper() for name in environment):
        ours = variable.startswith(ENV_PREFIX) and not _SERVICE_LINK.fullmatch(variable)
        if not ours or variable in known:
            continue
        near = difflib.get_close_matches(variable, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ", so remove it."
        raise ConfigurationError(f"There is no setting {variable}{hint}")


def _duration_of(settings: Settings, name: str) -> str:
    return duration_text(round(getattr(settings, name).total_seconds()))


def _full_name(name: str) -> str:
    if option_of(Settings.model_fields[name]).environment_only:
        return variable_of(name)
    return f"{flag_of(name)} ({variable_of(name)})"


def _sentence(error: Any) -> str:
    raised = error.get("ctx", {}).get("error")
    text = str(raised) if raised else error["msg"].removeprefix("Input ").rstrip(".")
    if error["type"] in {"bool_parsing", "bool_type"}:
        text = "is neither true nor false"
    if not error["loc"]:
        return text
    name = str(error["loc"][0])
    if name not in Settings.model_fields:
        return f"There is no setting {name}."
    value = error.get("input")
    found = f' "{value}"' if isinstance(value, str) and _is_public(name) else ""
    return f"{_full_name(name)}:{found} {text}."


def _is_public(name: str) -> bool:
    may_hold_password = name in {"prometheus_url", "prometheus_trusted_addresses"}
    return not option_of(Settings.model_fields[name]).environment_only and not may_hold_password
