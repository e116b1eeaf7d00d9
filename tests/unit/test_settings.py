from datetime import timedelta

import pytest

from desched.errors import ConfigurationError
from desched.settings import (
    Settings,
    flag_of,
    load_settings,
    option_of,
    origin_of,
    parse_headers,
    trusted_origins,
    variable_of,
)

EXAMPLES = {
    "dry_run": ("true", True),
    "evict": ("true", True),
    "once": ("true", True),
    "watch": ("true", True),
    "logbook": ("true", True),
    "interval": ("90s", timedelta(seconds=90)),
    "cycle_deadline": ("1h", timedelta(hours=1)),
    "api_server_timeout": ("5s", timedelta(seconds=5)),
    "prometheus_timeout": ("7s", timedelta(seconds=7)),
    "prometheus_insecure_skip_verify": ("true", True),
    "prometheus_allow_insecure_credentials": ("true", True),
    "prometheus_url": ("http://prometheus:9090", "http://prometheus:9090"),
    "prometheus_trusted_addresses": ("https://p:9090,http://q", "https://p:9090,http://q"),
    "prometheus_headers": ("X-Scope-OrgID=team-a", "X-Scope-OrgID=team-a"),
    "leader_elect": ("true", True),
    "lease_duration": ("40s", timedelta(seconds=40)),
    "renew_deadline": ("12s", timedelta(seconds=12)),
    "retry_period": ("3s", timedelta(seconds=3)),
    "output": ("yaml", "yaml"),
    "log_format": ("json", "json"),
    "log_level": ("debug", "debug"),
}


def example(name):
    return EXAMPLES.get(name, ("some-text", "some-text"))


def plain(value):
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    return value if isinstance(value, bool | timedelta) else str(value)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_field_is_set_by_its_environment_variable(name, monkeypatch):
    text, expected = example(name)
    monkeypatch.setenv(variable_of(name), text)
    settings = load_settings({})
    assert plain(getattr(settings, name)) == expected
    assert settings.given(name)


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch):
    assert load_settings({}).interval == timedelta(minutes=5)
    monkeypatch.setenv("DESCHED_INTERVAL", "10m")
    assert load_settings({}).interval == timedelta(minutes=10)
    assert load_settings({"interval": "1m"}).interval == timedelta(minutes=1)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_no_variable_without_the_prefix_is_read(name, monkeypatch):
    text, expected = example(name)
    for spelling in (name.upper(), flag_of(name).removeprefix("--").upper()):
        monkeypatch.setenv(spelling, text)
    for alias in option_of(Settings.model_fields[name]).aliases:
        monkeypatch.setenv(alias.removeprefix("--").replace("-", "_").upper(), text)
    assert plain(getattr(load_settings({}), name)) != expected


def test_a_dotenv_file_in_the_working_directory_is_not_read(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("DESCHED_EVICT=true\n")
    monkeypatch.chdir(tmp_path)
    assert not load_settings({}).evict


def test_an_empty_variable_is_as_if_it_were_not_set(monkeypatch):
    monkeypatch.setenv("DESCHED_CRON", "")
    assert load_settings({}).cron is None


def test_a_misspelt_variable_is_refused_with_a_suggestion(monkeypatch):
    monkeypatch.setenv("DESCHED_DRYRUN", "true")
    with pytest.raises(ConfigurationError, match="did you mean DESCHED_DRY_RUN"):
        load_settings({})


@pytest.mark.parametrize(
    "variable",
    [
        "DESCHED_SERVICE_HOST",
        "DESCHED_SERVICE_PORT",
        "DESCHED_SERVICE_PORT_METRICS",
        "DESCHED_PORT",
        "DESCHED_PORT_10258_TCP",
        "DESCHED_PORT_10258_TCP_ADDR",
        "DESCHED_METRICS_SERVICE_HOST",
    ],
)
def test_variables_that_kubernetes_sets_for_services_are_left_alone(variable, monkeypatch):
    monkeypatch.setenv(variable, "10.0.0.1")
    assert load_settings({}) == Settings()


def test_each_bad_value_gets_its_own_line_that_names_flag_and_variable():
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"interval": "5", "output": "xml", "dry_run": "perhaps"})
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert any(
        line.startswith('--interval (DESCHED_INTERVAL): "5" has no unit; write "5s"')
        for line in lines
    )
    assert "--output (DESCHED_OUTPUT): \"xml\" should be 'table', 'json' or 'yaml'." in lines
    assert any(line.startswith('--dry-run (DESCHED_DRY_RUN): "perhaps"') for line in lines)


@pytest.mark.parametrize("text", ["0", "0s"])
def test_a_duration_of_nothing_is_refused_with_the_least_that_is_allowed(text):
    with pytest.raises(ConfigurationError, match=f'"{text}" is too short; it must be at least 1s'):
        load_settings({"cycle_deadline": text})


def test_a_switch_that_is_neither_true_nor_false_is_refused():
    with pytest.raises(ConfigurationError, match='"maybe" is neither true nor false'):
        load_settings({"dry_run": "maybe"})


@pytest.mark.parametrize("text", ["localhost:9090", "ftp://a", "http://", "http://a:99999"])
def test_an_address_of_prometheus_that_is_no_url_is_refused_with_flag_and_value(text):
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"prometheus_url": text})
    start = f'--prometheus-url (DESCHED_PROMETHEUS_URL): "{text}" is not an http or https URL'
    assert str(caught.value).startswith(start)


@pytest.mark.parametrize("url", ["http://me:{}@a:99999", "http:/prometheus/?token={}"])
def test_a_url_that_may_hold_a_secret_is_not_repeated(url):
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"prometheus_url": url.format(SECRET)})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"dry_run": "true"}, {"evict": "true"}),
        ({"interval": "5m"}, {"cron": "@hourly"}),
        ({"prometheus_password": "a"}, {"prometheus_password_file": "b"}),
        ({"prometheus_headers": "A=b"}, {"prometheus_headers_file": "c"}),
    ],
)
def test_contradictions_are_refused_and_name_both_sides(one, other):
    with pytest.raises(ConfigurationError, match="contradict each other") as caught:
        load_settings(one | other)
    for name in one | other:
        assert variable_of(name) in str(caught.value)


def test_a_switch_given_as_false_contradicts_nothing():
    assert load_settings({"dry_run": "false", "evict": "true"}).evict


@pytest.mark.parametrize(
    ("flags", "loops"),
    [
        ({}, True),
        ({"evict": "true"}, True),
        ({"dry_run": "true"}, False),
        ({"dry_run": "true", "interval": "5m"}, True),
        ({"dry_run": "true", "cron": "@hourly"}, True),
        ({"once": "true"}, False),
    ],
)
def test_when_it_loops(flags, loops):
    assert load_settings(flags).loops is loops


@pytest.mark.parametrize(
    ("idle", "beside"),
    [
        ({"interval": "5m"}, {"once": "true"}),
        ({"cron": "@hourly"}, {"once": "true"}),
        ({"timezone": "Europe/Berlin"}, {}),
        ({"listen_address": ":10258"}, {"dry_run": "true"}),
        ({"watch": "false"}, {"once": "true"}),
    ],
)
def test_a_flag_without_effect_is_refused_but_a_variable_may_be_for_other_runs(
    idle, beside, monkeypatch
):
    (name,) = idle
    with pytest.raises(ConfigurationError, match=f"{flag_of(name)} has no effect"):
        load_settings(idle | beside)
    monkeypatch.setenv(variable_of(name), idle[name])
    load_settings(beside)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("", None)])
def test_leader_election_is_on_off_or_left_to_where_it_runs(text, value, monkeypatch):
    monkeypatch.setenv("DESCHED_LEADER_ELECT", text)
    assert load_settings({}).leader_elect is value


@pytest.mark.parametrize(
    ("flags", "longer", "shorter"),
    [
        ({"renew_deadline": "15s"}, "--lease-duration", "--renew-deadline"),
        ({"lease_duration": "5s"}, "--lease-duration", "--renew-deadline"),
        ({"retry_period": "10s"}, "--renew-deadline", "--retry-period"),
        ({"renew_deadline": "1s"}, "--renew-deadline", "--retry-period"),
    ],
)
def test_a_lease_outlasts_its_holder_and_the_holder_a_failed_renewal(flags, longer, shorter):
    with pytest.raises(ConfigurationError, match=rf"{longer} .* must be longer than {shorter} "):
        load_settings(flags)


def test_too_short_a_lease_is_refused_with_both_durations():
    with pytest.raises(ConfigurationError, match="they are 10s and 1m30s"):
        load_settings({"lease_duration": "10s", "renew_deadline": "90s"})


@pytest.mark.parametrize("name", ["lease_duration", "renew_deadline", "retry_period"])
def test_timing_of_a_lease_that_nobody_takes_is_refused(name):
    with pytest.raises(ConfigurationError, match="has no effect with --leader-elect=false"):
        load_settings({name: EXAMPLES[name][0], "leader_elect": "false"})


SECRET = "s3cr3t-value"  # noqa: S105  (what must not show up anywhere)


def test_secrets_show_up_neither_in_repr_nor_in_errors(monkeypatch):
    monkeypatch.setenv("DESCHED_PROMETHEUS_PASSWORD", SECRET)
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", SECRET)
    monkeypatch.setenv("DESCHED_PROMETHEUS_HEADERS", f"Authorization={SECRET}")
    assert SECRET not in repr(load_settings({}))
    monkeypatch.setenv("DESCHED_PROMETHEUS_HEADERS", SECRET)
    with pytest.raises(ConfigurationError, match="DESCHED_PROMETHEUS_HEADERS") as caught:
        load_settings({"interval": "x"})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_password_in_the_url_is_refused_without_repeating_it():
    with pytest.raises(ConfigurationError, match="DESCHED_PROMETHEUS_PASSWORD") as caught:
        load_settings({"prometheus_url": f"http://me:{SECRET}@prometheus"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("X-Scope-OrgID=team-a", {"X-Scope-OrgID": "team-a"}),
        ("A=1, B=x=y", {"A": "1", "B": "x=y"}),
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ('{"A": "1, 2"}', {"A": "1, 2"}),
        ("X-Scope-OrgID: team-a\n", {"X-Scope-OrgID": "team-a"}),
        ("A: 1, 2\nB: x=y\n", {"A": "1, 2", "B": "x=y"}),
        ("A=http://b:1,C=d", {"A": "http://b:1", "C": "d"}),
    ],
)
def test_headers_are_a_list_of_pairs_or_json(text, headers):
    assert parse_headers(text) == headers


@pytest.mark.parametrize("text", ["A", '{"A": 1}', '{"A"', "A b=1", '{"A": "1\\r\\nB: 2"}', "=1"])
def test_headers_that_are_neither_are_refused(text):
    with pytest.raises(ValueError, match="must be like"):
        parse_headers(text)


@pytest.mark.parametrize(
    ("listed", "url", "trusted"),
    [
        ("https://p.example.com", "https://P.example.com:443/prom", True),
        ("http://p:9090/ , https://q", "https://q", True),
        ("https://p.example.com", "http://p.example.com", False),
        ("https://p.example.com", "https://p.example.com:9090", False),
        ("https://p.example.com", "https://p.example.com.evil.net", False),
        ("https://p.example.com", "https://evil.net/p.example.com", False),
    ],
)
def test_addresses_are_trusted_by_scheme_host_and_port(listed, url, trusted):
    assert (origin_of(url) in trusted_origins(listed)) is trusted


@pytest.mark.parametrize("listed", ["https://p/prom", "p:9090", "*", "https://q,http://p?x"])
def test_a_trusted_address_is_an_origin_and_nothing_else(listed):
    with pytest.raises(ConfigurationError, match="--prometheus-trusted-addresses"):
        load_settings({"prometheus_trusted_addresses": listed})


def test_a_secret_in_a_trusted_address_is_not_repeated():
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"prometheus_trusted_addresses": f"https://me:{SECRET}@p"})
    assert SECRET not in str(caught.value)
