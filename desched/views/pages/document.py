"""HTML documents that need nothing else: templates, styles, scripts and their security policy."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from desched.wording.formatting import count, first_lines, percent, plain

_ASSETS = resources.files("desched.views.pages")


def asset(name: str) -> str:
    """The text of a style or script of desched."""
    return _ASSETS.joinpath(name).read_text("utf-8")


STYLE = asset("page.css")
TABLES = asset("tables.js")
"""Sorts and filters the tables; without it, they are plain tables."""


class Html(NamedTuple):
    """A document and the Content-Security-Policy that it needs."""

    text: str
    security_policy: str


class Data(NamedTuple):
    """A value that scripts of a page read from the element with this id."""

    id: str
    value: object


def document(
    template: str,
    values: Mapping[str, object],
    *,
    scripts: Sequence[str] = (TABLES,),
    data: Sequence[Data] = (),
    allow: Sequence[str] = (),
) -> Html:
    """The document made from a template; it loads nothing and runs only these scripts.

    Every text is neutralised and escaped. `allow` adds directives to the security policy; with a
    `style-src` there, styles that scripts add are allowed, too.
    """
    directives = {
        "default-src": "'none'",
        "script-src": " ".join(map(_source, scripts)) or "'none'",
        "style-src": _source(STYLE),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    directives |= {
        name: value for name, _, value in (directive.partition(" ") for directive in allow)
    }
    policy = "; ".join(f"{name} {value}" for name, value in directives.items())
    html = _templates().get_template(template)
    text = html.render(
        values,
        security_policy=policy,
        style=Markup(STYLE),  # noqa: S704  (a file of desched)
        scripts=[Markup(script) for script in scripts],  # noqa: S704  (files of desched and of Bokeh)
        data=[(part.id, Markup(script_json(part.value))) for part in data],  # noqa: S704  (escaped)
    )
    return Html(text, policy)


def script_json(value: object) -> str:
    """The value as JSON that cannot end the script element that holds it."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _source(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("desched.views.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_neutral,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "utc": _utc, "iso": datetime.isoformat}
    environment.globals |= {"count": count, "first_lines": first_lines}
    return environment


def _neutral(value: object) -> object:
    """Texts come from the cluster: no character of theirs may change how others are shown."""
    return value if isinstance(value, Markup | float | int) else plain(str(value))


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
