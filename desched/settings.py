"""How the process runs: one field for each flag and its `DESCHED_*` environment variable.

What may be disturbed is policy, not settings. Settings hold until the process ends.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
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


@dataclass(frozen=True)
class Option:
    """How a field appears to people.

    `environment_only` is for secrets, and for what only a pod's manifest knows: arguments can be
    read by everyone on the machine.
    """

    group: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    environment_only: bool = False


MODE = "What it may do"
POLICY = "Policy"
CLUSTER = "Cluster"
PROMETHEUS = "Prometheus"
TIMING = "Timing"
REPLICAS = "Replicas"
OUTPUT = "Output"


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    seconds = 0 if value.strip() == "0" else duration_seconds(value)
    if seconds < 1:
        raise ValueError("is too short; it must be at least 1s")
    return timedelta(seconds=seconds)


def _url(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = "" if set("@?#") & set(value) else f'"{value}" '  # else it may hold a secret
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
            "must not hold a password; use --prometheus-username and DESCHED_PROMETHEUS_PASSWORD"
        )
    if not usable:
        raise ValueError(complaint)
    return value


def _headers(value: Any) -> Any:
    if isinstance(value, str):
        parse_headers(value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Headers = Annotated[SecretStr, BeforeValidator(_headers)]


class Settings(BaseSettings):
    """Settings from flags, which win, and the environment; nothing else is read."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
    )

    dry_run: Annotated[bool, Option(MODE)] = Field(
        default=False,
        description="Plan and show, never evict. Alone it plans once and exits; with --interval "
        "or --cron it keeps going.",
    )
    evict: Annotated[bool, Option(MODE)] = Field(
        default=False,
        description="Evict also from outside the cluster, in the context that is named.",
    )
    once: Annotated[bool, Option(MODE)] = Field(
        default=False, description="Run one cycle and exit."
    )

    policy: Annotated[Path | None, Option(POLICY, "FILE", ("--policy-config-file",))] = Field(
        None,
        description="The DeschedulerPolicy, bare or in a ConfigMap manifest; re-read every cycle. "
        "Examples are in policies/.",
    )

    kubeconfig: Annotated[Path | None, Option(CLUSTER, "FILE")] = Field(
        None,
        description="Which kubeconfig; else the cluster that desched runs in, else the default "
        "kubeconfig.",
    )
    context: Annotated[str | None, Option(CLUSTER, "NAME")] = Field(
        None, description="Which context of the kubeconfig; else its current one."
    )
    api_server_timeout: Annotated[Duration, Option(CLUSTER, "DURATION")] = Field(
        timedelta(seconds=30),
        description="The most time that one request to the API server may take, retries included.",
    )
    pod_namespace: Annotated[str | None, Option(CLUSTER, environment_only=True)] = Field(
        None, description="The namespace of desched's own pod, for Events about itself."
    )
    pod_name: Annotated[str | None, Option(CLUSTER, environment_only=True)] = Field(
        None, description="The name of desched's own pod."
    )

    prometheus_url: Annotated[str | None, BeforeValidator(_url), Option(PROMETHEUS, "URL")] = Field(
        None, description="Where Prometheus is; overrides metrics.address of the policy."
    )
    prometheus_timeout: Annotated[Duration, Option(PROMETHEUS, "DURATION")] = Field(
        timedelta(seconds=30),
        description="The most time that one query may take, retries included.",
    )
    prometheus_username: Annotated[str | None, Option(PROMETHEUS, "NAME")] = Field(
        None, description="User name for basic authentication."
    )
    prometheus_password: Annotated[SecretStr | None, Option(PROMETHEUS, environment_only=True)] = (
        Field(None, description="Password for basic authentication.")
    )
    prometheus_password_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = Field(
        None, description="File with the password for basic authentication."
    )
    prometheus_bearer_token: Annotated[
        SecretStr | None, Option(PROMETHEUS, environment_only=True)
    ] = Field(None, description="Bearer token.")
    prometheus_bearer_token_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = Field(
        None, description="File with the bearer token; read again when it changes."
    )
    prometheus_client_cert_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = Field(
        None, description="Client certificate (PEM)."
    )
    prometheus_client_key_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = Field(
        None, description="Key of the client certificate (PEM)."
    )
    prometheus_ca_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = Field(
        None, description="Certificate authorities to trust instead of the system's (PEM)."
    )
    prometheus_headers: Annotated[Headers | None, Option(PROMETHEUS, environment_only=True)] = (
        Field(
            None,
            description="Further headers as Name=value,Name=value or a JSON object, such as "
            "X-Scope-OrgID=team-a.",
        )
    )
    prometheus_headers_file: Annotated[Path | None, Option(PROMETHEUS, "FILE")] = Field(
        None, description="File with further headers such as X-Scope-OrgID: team-a, one to a line."
    )
    prometheus_insecure_skip_verify: Annotated[bool, Option(PROMETHEUS)] = Field(
        default=False, description="Do not check Prometheus' certificate."
    )
    prometheus_allow_insecure_credentials: Annotated[bool, Option(PROMETHEUS)] = Field(
        default=False,
        description="Send credentials over plain http, where the network may read them; to "
        "this machine itself (localhost) they always go.",
    )

    interval: Annotated[Duration, Option(TIMING, "DURATION", ("--descheduling-interval",))] = Field(
        timedelta(minutes=5),
        description="The time from one cycle to the next, where cycles go on (see --dry-run and "
        "--once).",
    )
    cron: Annotated[
        str | None,
        Option(TIMING, "EXPRESSION", ("--descheduling-interval-cron-expression",)),
    ] = Field(
        None,
        description="Cycles by a cron expression instead, such as '*/10 * * * *', @hourly or "
        "'@every 10m'; the first one still runs at once.",
    )
    timezone: Annotated[str, Option(TIMING, "ZONE")] = Field(
        "UTC", description="The time zone of the cron expression, such as Europe/Berlin."
    )
    cycle_deadline: Annotated[Duration, Option(TIMING, "DURATION")] = Field(
        timedelta(minutes=15), description="A cycle that takes longer makes /healthz fail."
    )

    leader_elect: Annotated[bool | None, Option(REPLICAS)] = Field(
        None,
        description="Evict only while holding a Lease, so that of several replicas one acts. If "
        "nothing is said, on for whatever evicts or runs as a service in a cluster, else off.",
    )
    lease_duration: Annotated[Duration, Option(REPLICAS, "DURATION")] = Field(
        timedelta(seconds=15),
        description="How long a Lease has to go without renewal before another replica takes it.",
    )
    renew_deadline: Annotated[Duration, Option(REPLICAS, "DURATION")] = Field(
        timedelta(seconds=10),
        description="How long after its last renewal the holder of the Lease stops acting.",
    )
    retry_period: Annotated[Duration, Option(REPLICAS, "DURATION")] = Field(
        timedelta(seconds=2),
        description="The time from one attempt to take or renew the Lease to the next.",
    )
    state_namespace: Annotated[str | None, Option(REPLICAS, "NAME")] = Field(
        None,
        description="The namespace in which desched keeps its Lease and its state; else that of "
        "its own pod, else desched-system.",
    )

    output: Annotated[Literal["table", "json", "yaml"] | None, Option(OUTPUT)] = Field(
        None,
        description="How reports are printed on standard output: a table if nothing is said; a "
        "service without a terminal then prints none.",
    )
    log_format: Annotated[Literal["auto", "json", "console"], Option(OUTPUT)] = Field(
        "auto", description="The log on standard error; auto is JSON unless on a terminal."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Option(OUTPUT)] = Field(
        "info", description="The least that is logged."
    )
    listen_address: Annotated[str | None, Option(OUTPUT, "HOST:PORT")] = Field(
        None,
        description="Where a service answers /metrics, /healthz and /readyz: :10258 in a cluster, "
        "127.0.0.1:10258 outside.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags win over the environment; a .env file in the working directory is not ours."""
        del settings_cls, dotenv_settings, file_secret_settings
        if isinstance(env_settings, EnvSettingsSource):
            _refuse_unknown_variables(cls, env_settings.env_vars)
        return init_settings, env_settings

    @model_validator(mode="after")
    def _without_contradictions(self) -> Self:
        for one, other in _EITHER_OR:
            if self.given(one) and self.given(other):
                raise ValueError(
                    f"{_spelt(one)} and {_spelt(other)} contradict each other; keep one."
                )
        for longer, shorter in _LONGER_THAN:
            if getattr(self, longer) <= getattr(self, shorter):
                raise ValueError(
                    f"{_spelt(longer)} must be longer than {_spelt(shorter)}: they are "
                    f"{_duration_of(self, longer)} and {_duration_of(self, shorter)}."
                )
        return self

    def given(self, field: str) -> bool:
        """Whether the field was set to something, by a flag or the environment."""
        return field in self.model_fields_set and getattr(self, field) not in {None, False}

    @property
    def loops(self) -> bool:
        """Whether it runs cycles until it is stopped, rather than a single one."""
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
    """Settings from the flags that were given, by field, and the environment.

    Raises:
        ConfigurationError: one line for each value that cannot be used.
    """
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        raise ConfigurationError("\n".join(map(_sentence, error.errors()))) from None
    _refuse_idle_flags(flags, settings)
    return settings


def _refuse_idle_flags(flags: Mapping[str, Any], settings: Settings) -> None:
    """A flag without effect is a misunderstanding; a variable may be there for other runs."""
    idle = {
        "timezone": (settings.cron is None, "means nothing without --cron"),
        "interval": (settings.once, "means nothing with --once, which runs a single cycle"),
        "cron": (settings.once, "means nothing with --once, which runs a single cycle"),
        "listen_address": (not settings.loops, "means nothing for a single cycle"),
    }
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        idle[name] = (settings.leader_elect is False, "means nothing with --leader-elect=false")
    for name, (is_idle, why) in idle.items():
        if name in flags and is_idle:
            raise ConfigurationError(f"{flag_of(name)} {why}; leave it out.")


def option_of(field: FieldInfo) -> Option:
    """How a field of Settings appears to people."""
    return next(item for item in field.metadata if isinstance(item, Option))


def flag_of(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return ENV_PREFIX + name.upper()


def parse_headers(text: str) -> dict[str, str]:
    """HTTP headers from a JSON object, `Name: value` lines, or `Name=value` items.

    Items are separated by commas or lines; what stands after a colon goes on to the line's end.

    Raises:
        ValueError: it is neither; the text is not repeated, for it may be secret.
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
"""What Kubernetes sets in each pod for a Service named desched or desched-something."""


def _refuse_unknown_variables(
    settings: type[BaseSettings], environment: Mapping[str, str | None]
) -> None:
    """A misspelt DESCHED_DRY_RUN must not let desched evict."""
    known = {variable_of(name) for name in settings.model_fields}
    for variable in sorted(name.upper() for name in environment):
        if not variable.startswith(ENV_PREFIX) or variable in known:
            continue
        if _SERVICE_LINK.fullmatch(variable):
            continue
        near = difflib.get_close_matches(variable, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ", so remove it."
        raise ConfigurationError(f"There is no setting {variable}{hint}")


def _duration_of(settings: Settings, name: str) -> str:
    return duration_text(round(getattr(settings, name).total_seconds()))


def _spelt(name: str) -> str:
    if option_of(Settings.model_fields[name]).environment_only:
        return variable_of(name)
    return f"{flag_of(name)} ({variable_of(name)})"


def _sentence(error: Any) -> str:
    raised = error.get("ctx", {}).get("error")
    said = str(raised) if raised else error["msg"].removeprefix("Input ").rstrip(".")
    if error["type"] in {"bool_parsing", "bool_type"}:
        said = "is neither true nor false"
    if not error["loc"]:
        return said
    name = str(error["loc"][0])
    if name not in Settings.model_fields:
        return f"There is no setting {name}."
    value = error.get("input")
    found = f' "{value}"' if isinstance(value, str) and _is_public(name) else ""
    return f"{_spelt(name)}:{found} {said}."


def _is_public(name: str) -> bool:
    return not option_of(Settings.model_fields[name]).environment_only and name != "prometheus_url"
