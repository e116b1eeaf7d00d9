"""What an answer without data means, and the one setting that helps.

What answers is often no Prometheus: a gateway of several tenants, a proxy that asks for a login, or
the page of another service. Each sentence is the end of one about Prometheus.
"""

import re
from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit

import requests

from desched.adapters.prometheus.connection import without_user

_LONGEST_HEAD_BYTES = 4_000
_HEADING = re.compile(r"<(?:title|h1)[^>]*>\s*([^<]{1,200})", re.IGNORECASE)
_LOGIN = re.compile(r"log[ -]?in\b|sign[ _-]?in\b|oauth|authori[sz]e|/sso\b", re.IGNORECASE)

_TOKEN_FILE = "--prometheus-bearer-token-file"  # noqa: S105  (a flag)
_TENANCY_PORT = 9092  # of OpenShift's Thanos Querier

_ONE_NAMESPACE = "accepts only queries of one namespace {}; with OpenShift use port 9091"
_SPEAKS_TLS = "speaks TLS {}; write https:// in the URL"

_MARKS = {
    "no org id": "requires a tenant {}; set metrics.tenant in the policy",
    "client sent an http request to an https server": _SPEAKS_TLS,
    "plain http request was sent to https port": _SPEAKS_TLS,
    "rbac: access denied": (
        "is closed to desched by a service mesh {}; allow desched in its AuthorizationPolicy"
    ),
    # kube-rbac-proxy, which takes the namespace from the query, and prom-label-proxy
    "the request or configuration is malformed": _ONE_NAMESPACE,
    '"namespace" query parameter must be provided': _ONE_NAMESPACE,
}
"""What a text means, whatever the status, with a place for the status."""

_BY_STATUS = {
    400: "could not evaluate the query {}; check metrics.queries",
    404: "has no query API at this URL {}; correct its path",
    405: "has no query API at this URL {}; correct its path",
    407: "is behind a proxy that requires a login {}; correct HTTP_PROXY or HTTPS_PROXY",
    422: "could not evaluate the query {}; check metrics.queries and its limits",
    429: "refuses because of too many requests {}, after retries too",
}
_BY_TENANCY_PORT = dict.fromkeys((400, 403), _ONE_NAMESPACE)
_WITH_LOGIN = {
    401: "did not accept the credentials {}; check",
    403: "does not permit queries {}; check the rights by",
}
_WITHOUT_LOGIN = {
    401: "requires credentials {}, and none were sent",
    403: "does not permit queries {} without credentials",
}
_BY_OTHERS = {
    400: "is behind a proxy that refuses the request {}; correct the URL",
    422: "is behind a proxy that refuses the request {}; correct the URL",
}

_OF_TLS = (
    (
        r"self.signed|unable to get (local )?issuer",
        (
            "has a certificate of a CA that is not known here; name the file with that CA by "
            "--prometheus-ca-file"
        ),
    ),
    (r"certificate has expired", "has a certificate that has expired; it must be renewed"),
    (
        r"mismatch|doesn't match|not valid for",
        "has a certificate for another host; write the host name of its certificate in the URL",
    ),
    (
        r"certificate required|handshake failure|bad certificate",
        (
            "requires a client certificate; set --prometheus-client-cert-file and "
            "--prometheus-client-key-file"
        ),
    ),
    (
        r"wrong version number|record layer failure|http request",
        "does not speak TLS; write http:// in the URL",
    ),
)


def head(response: requests.Response, longest_bytes: int = _LONGEST_HEAD_BYTES) -> str:
    """The beginning of the body."""
    return response.content[:longest_bytes].decode(errors="replace")


def first_line(response: requests.Response) -> str:
    """The first line of what is no answer of Prometheus; of a page, its title."""
    text = head(response)
    if heading := _HEADING.search(text):
        return heading[1]
    line = next(iter(text.strip().splitlines()), "")
    return "" if line.startswith("<") else line


def why_refused(
    response: requests.Response, said: str, logins: Sequence[str], *, by_prometheus: bool
) -> str:
    """Why a status other than 200 was answered.

    `said` is its text, and `logins` the names of the credentials that were sent. An error in the
    form that Prometheus has is `by_prometheus`.
    """
    if response.is_redirect:
        return _why_redirected(response, logins)
    meaning = next((m for mark, m in _MARKS.items() if mark in said.lower()), "")
    if not meaning and urlsplit(response.url).port == _TENANCY_PORT:
        meaning = _BY_TENANCY_PORT.get(response.status_code, "")
    if not meaning and response.status_code in _WITHOUT_LOGIN:
        if logins:
            meaning = f"{_WITH_LOGIN[response.status_code]} {' and '.join(logins)}"
        else:
            meaning = f"{_WITHOUT_LOGIN[response.status_code]}; {_login(response)}"
    meanings = _BY_STATUS if by_prometheus else _BY_STATUS | _BY_OTHERS
    meaning = meaning or meanings.get(response.status_code, "failed {}, after retries too")
    return meaning.format(f"(HTTP {response.status_code})")


def why_no_results(response: requests.Response, logins: Sequence[str]) -> str:
    """Why the body of an answer with status 200 is none of Prometheus."""
    if not _LOGIN.search(head(response)):
        return "correct the path of the URL"
    if logins:
        return f"perhaps a login page; check {' and '.join(logins)}"
    return f"perhaps a login page, and no credentials were sent; {_login(response)}"


def why_no_tls(error: str) -> str:
    """What an error of TLS means."""
    for mark, meaning in _OF_TLS:
        if re.search(mark, error.replace("_", " "), re.IGNORECASE):
            return meaning
    return "and desched did not agree on TLS; check the versions and ciphers that it accepts"


def _why_redirected(response: requests.Response, logins: Sequence[str]) -> str:
    """Where it leads is not shown: such a URL may have credentials in any place."""
    what = f"redirects elsewhere (HTTP {response.status_code})"
    asked = without_user(response.url)
    try:
        target = without_user(urljoin(response.url, response.headers["Location"]))
    except ValueError:
        return f"{what}, to no valid URL; check what answers at this address"
    if target == asked.replace("http://", "https://", 1):
        return f"{what}; write https:// in the URL"
    if not _LOGIN.search(target):
        return f"{what}; use the URL where `curl --location` ends"
    if logins:
        return f"{what}, to a login page; check {' and '.join(logins)}"
    return f"{what}, to a login page, and no credentials were sent; {_login(response)}"


def _login(response: requests.Response) -> str:
    """The setting for the credentials that are asked for."""
    if response.headers.get("WWW-Authenticate", "").lower().startswith("basic"):
        return "set --prometheus-username and DESCHED_PROMETHEUS_PASSWORD"
    return f"set {_TOKEN_FILE}"
