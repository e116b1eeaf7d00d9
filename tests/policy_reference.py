"""The policy reference and the JSON Schema, both made from the models.

`python -m tests.policy_reference` prints the reference, with `--schema` the JSON Schema.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from desched.planning.plugins import Plugin
from desched.plugins import HOUSE
from desched.policy.compatibility import (
    EXTENDED,
    STRICT,
    UNLIMITED,
    Defaults,
)
from desched.policy.durations import LONGEST_SECONDS, duration_text
from desched.policy.share import Share
from desched.policy_file.difference import settings
from desched.policy_file.sections.load_aware import LoadAwareArgs
from desched.policy_file.sections.plugins import (
    DefaultEvictorConfig,
    LoadAwareConfig,
    UpstreamPluginConfig,
)
from desched.policy_file.sections.root import DeschedulerPolicy
from desched.policy_file.upstream_plugins import OF_HOUSE
from desched.policy_keys.section import Section, all_sections, keys

_ENTRIES: Mapping[type[Section], str] = {
    LoadAwareConfig: "The `pluginConfig` of LoadAware",
    **{config: f"The `pluginConfig` of {name}" for name, config in OF_HOUSE.items()},
    DefaultEvictorConfig: "The `pluginConfig` of DefaultEvictor",
    UpstreamPluginConfig: "The `pluginConfig` of other plugins",
}
_INTRODUCTION = """\
# Policy reference

A policy is a `DeschedulerPolicy` of `descheduler/v1alpha2`, as a file, as the ConfigMap that holds
it under `policy.yaml`, or as the JSON under `deschedulerPolicy` of Huawei CCE's add-on settings.
Examples are in [policies](../policies/README.md). This page is generated from the models by
`python -m tests.policy_reference`.

* **Units.** Thresholds and margins are percentages of capacity, from 0 to 100; `85` and `85%` are
  the same, and `0.85` is refused. Durations are texts with a unit, such as `90s`, `5m`, `1h30m` or
  `7d`; whole seconds count.
* **Three plugins.** `LoadAware` defines when a node is overloaded, `DefaultEvictor` which pods
  stay. If both have a key for the same pods, the more protective value applies. `GpuFragmentation`
  is off unless a profile with `LoadAware` enables it too: it defines for whose GPUs nodes are
  drained.
* **A floor.** No policy changes this: pods of DaemonSets, mirror pods and static pods never move, a
  pod moves only if it fits elsewhere, and load that cannot be trusted never causes an eviction.
* **Nothing is guessed.** desched refuses a policy with an unknown key, a repeated key or a value of
  the wrong type. The error has the file, the line and what is allowed; `desched validate` lists all
  of them without a cluster.
"""
_STRICT = """\
### What `compatibility: Strict` turns off

Use it to compare plans with those of other deschedulers, or to give a policy the meaning that it
has there. It changes these defaults; a key that the policy sets keeps its value.

{table}

It changes nothing else. These stay in particular: trust in data and `cluster_saturated`; pods that
never move, such as those of DaemonSets; fit; PodDisruptionBudgets, and the number of Ready replicas
for workloads without one; system namespaces; volumes that are bound to a node; the pace of acting
(`inFlight`, `perMinute`, `deadline`) and `followUp`. Other deschedulers evict only while some node
is below all of `thresholds`; desched does so only with `numberOfNodes`. Such a policy loads with a
warning.
"""


class _PlainSchema(GenerateJsonSchema):
    """Leaves out what an editor would only show as noise: made-up titles and null as default."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 (pydantic's signature)
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        return {key: value for key, value in found.items() if (key, value) != ("default", None)}


def json_schema() -> str:
    """The JSON Schema of a policy, as a text that ends with a line break."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **DeschedulerPolicy.model_json_schema(schema_generator=_PlainSchema),
    }
    # Descriptions are wrapped texts; no other text of the schema has a line break.
    text = json.dumps(schema, indent=2, ensure_ascii=False)
    return re.sub(r"(\\n)+", " ", text) + "\n"


def reference() -> str:
    """The reference as Markdown, one table for each section of the document."""
    blocks = [_INTRODUCTION]
    for places, section in _sections_by_place():
        schema = section.model_json_schema(schema_generator=_PlainSchema)
        rows = (_row(key, field, schema) for key, field in keys(section).items())
        head = "| key | type | default | meaning |\n|---|---|---|---|"
        text = " ".join((section.__doc__ or "").split())
        blocks.append("\n".join((f"## {' and '.join(places)}\n\n{text}\n", head, *rows, "")))
        if section is LoadAwareArgs:
            blocks.append(_STRICT.format(table=_switches()))
    return "\n".join(blocks)


def _row(key: str, field: FieldInfo, schema: Mapping[str, Any]) -> str:
    value = schema["properties"][key]
    default = "required" if field.is_required() else _default(value)
    meaning = " ".join((field.description or "").split())
    return f"| `{key}` | {_type(value, schema)} | {default} | {meaning}{_example(value)} |"


def _switches() -> str:
    """Each default that differs between Extended and Strict, as a table."""
    rows = zip(_default_texts(EXTENDED), _default_texts(STRICT), strict=True)
    lines = [f"| `{key}` | {extended} | {strict} |" for (key, extended), (_, strict) in rows]
    lines += [row for plugin in HOUSE for row in _switched(plugin)]
    return "\n".join(("| default of | `Extended` | `Strict` |", "|---|---|---|", *lines))


def _switched(plugin: Plugin) -> Iterator[str]:
    """The first setting of a plugin that differs; the others of its section follow from it."""
    rows = zip(settings(plugin), settings(plugin.strict()), strict=True)
    for (path, extended), (_, strict) in rows:
        if extended != strict:
            yield f"| `{'.'.join(path)}` | `{extended}` | `{strict}` |"
            return


def _default_texts(of: Defaults) -> Iterator[tuple[str, str]]:
    no_limit = "no limit"
    unbounded = of.max_grace_period_seconds == LONGEST_SECONDS
    grace_period = no_limit if unbounded else f"`{duration_text(of.max_grace_period_seconds)}`"
    yield "evictionPrice", f"`{duration_text(round(60 * of.eviction_price_minutes))}`"
    yield "stopMargin", f"{of.stop_margin:g}"
    yield "ceilingMargin", f"{of.ceiling_margin:g}"
    yield "deviationFloor", f"{of.deviation_floor:g}, and {of.dead_band:g} points above the mean"
    yield "maxLandingRisk", f"{of.max_landing_risk:g}"
    yield "steering", f"`{of.steering.value}`"
    yield "evictionLimits.total", _limit(of.total_limit, "the nodes")
    yield "evictionLimits.slowStart", f"`{str(of.slow_start).lower()}`"
    yield "evictionLimits.node", _limit(of.node_limit)
    yield "evictionLimits.workload", _limit(of.workload_limit, "its replicas")
    yield "evictionLimits.workloadHourly", _limit(of.workload_hourly_limit, "its replicas")
    yield "evictSingleReplica", f"`{str(not of.single_replicas).lower()}`"
    yield "relieveStayingExcess", f"`{str(of.relieve_staying_excess).lower()}`"
    yield "maxGracePeriod", grace_period


def _limit(limit: int | Share | None, whole: str = "") -> str:
    if limit is None or limit == UNLIMITED:
        return "no limit"
    if isinstance(limit, int):
        return str(limit)
    rounded = ", rounded up" if limit.rounded_up else f", at least {limit.at_least}"
    return f"{limit.ratio:.0%} of {whole}{rounded}".replace("%", " %")


def _sections_by_place() -> Iterator[tuple[list[str], type[Section]]]:
    places: dict[type[Section], list[str]] = {}
    for place, section in all_sections(DeschedulerPolicy):
        known = places.setdefault(section, [])
        if place not in known:
            known.append(place)
    for section, found in places.items():
        entry = _ENTRIES.get(section)
        yield [entry or place[0].upper() + place[1:] for place in found], section


def _type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:  # noqa: PLR0911 (a table)
    if "$ref" in schema:
        return _type(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        options = (_type(option, root) for option in schema["anyOf"] if option != {"type": "null"})
        return " or ".join(dict.fromkeys(options))
    if "oneOf" in schema:
        return "section"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], root)}"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return "section" if "properties" in schema else "mapping"
    return _scalar_type(schema)


def _scalar_type(schema: Mapping[str, Any]) -> str:
    name = {
        "boolean": "`true` or `false`",
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "object": "section",
    }[schema["type"]]
    pattern = schema.get("pattern", "")
    if "|ms|s|m|h" in pattern:
        return "duration"
    if pattern.endswith("%$"):
        return "percentage"
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    return f"{name}, {lowest:g} to {highest:g}" if highest == 100 else name


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if value is None:
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{json.dumps(value)}`"


def _example(schema: Mapping[str, Any]) -> str:
    """The first example as YAML writes it in one line, empty without any."""
    examples = schema.get("examples")
    return f" Example: `{json.dumps(examples[0], ensure_ascii=False)}`." if examples else ""


if __name__ == "__main__":
    sys.stdout.write(json_schema() if "--schema" in sys.argv[1:] else reference())
