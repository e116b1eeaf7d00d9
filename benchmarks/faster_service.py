"""desched in a world that is faster than the clock: `python -m benchmarks.faster_service 20 …`.

What follows the speed are desched's own arguments. The durations of policy and settings are the
caller's to divide, as `faster_policy` does; this module divides those that are constants.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

import desched
from desched.cli import main
from desched.policy.durations import duration_seconds
from desched.policy_file.sections.limits import EvictionLimitsSection
from desched.policy_file.sections.load_aware import LoadAwareArgs
from desched.policy_file.sections.metrics import Metrics
from desched.policy_keys.section import Section

LONGEST_SPEED = 20
"""At a higher speed some durations would be shorter than a policy may have them."""

DECIDING = ("desched.eviction", "desched.model", "desched.planning")
"""The packages whose constants are divided, wherever they are used."""
OF_THE_CLOCKS = {"SEEMS_EARLIER"}
"""What depends on the accuracy of real clocks stays."""
IN_SECONDS = {
    "desched.eviction.pacing": ("FIRST_WAIT_SECONDS", "LONGEST_WAIT_SECONDS"),
    "desched.planning.selection.eviction_cost": ("SETTLED_AFTER_SECONDS",),
    "desched.planning.overload.classification": (
        "LEAST_RECURRING_MINUTES",
        "LEAST_SHOWN_MINUTES",
    ),
    "desched.planning.overload.forecast": (
        "AHEAD_SECONDS",
        "LEVEL_HALF_LIFE_SECONDS",
        "SWING_HALF_LIFE_SECONDS",
    ),
    "desched.planning.selection.one_node": ("LEAST_SAVED_MINUTES",),
    "desched.policy.policy": ("HISTORY_SECONDS", "LEAST_STEP_SECONDS"),
}
"""Further constants that are times of the cluster's life, by the module that defines them."""


def faster_policy(text: str, speed: int, address: str) -> str:
    """The policy with this Prometheus, and with all durations divided, also those by default.

    The most evictions in a minute are multiplied instead.
    """
    document = yaml.safe_load(text)
    for plugin in document["profiles"][0]["pluginConfig"]:
        if plugin["name"] == "LoadAware":
            plugin["args"] = _faster(LoadAwareArgs, plugin["args"], speed)
            plugin["args"]["metrics"]["address"] = address
    return yaml.safe_dump(document)


def _faster(section: type[Section], written: Mapping[str, Any], speed: int) -> dict[str, Any]:
    found = dict(written)
    for name, field in section.model_fields.items():
        key = field.alias or name
        value = written.get(key, None if section is Metrics else _default(field))
        inner = _section_in(field.annotation)
        if inner is not None and (parts := _faster(inner, written.get(key) or {}, speed)):
            found[key] = parts
        elif _is_duration(value):
            found[key] = f"{math.ceil(duration_seconds(value) / speed)}s"
        elif section is EvictionLimitsSection and name == "per_minute":
            found[key] = value * speed
    return found


def _default(field: FieldInfo) -> Any:
    extra = field.json_schema_extra
    return extra.get("default") if isinstance(extra, dict) else None


def _is_duration(value: object) -> bool:
    try:
        return isinstance(value, str) and duration_seconds(value) > 0
    except ValueError:
        return False


def _section_in(annotation: Any) -> type[Section] | None:
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, Section)), None)


def divide_constants(speed: float) -> None:
    """Divide the times that decide in this process, in every module that uses them."""
    known = list(modules())
    faster = {id(value): _divided(value, speed) for value in _constants(known)}
    for module in known:
        for name, value in list(vars(module).items()):
            if id(value) in faster and name.isupper():
                setattr(module, name, faster[id(value)])


def _divided(value: Any, speed: float) -> Any:
    """A whole number stays one."""
    return max(1, round(value / speed)) if isinstance(value, int) else value / speed


def modules() -> Iterable[ModuleType]:
    """All modules of desched."""
    for found in walk_packages(desched.__path__, "desched."):
        if not found.name.endswith("__main__"):
            yield import_module(found.name)


def _constants(known: Iterable[ModuleType]) -> Iterable[Any]:
    for module in known:
        deciding = module.__name__.startswith(DECIDING)
        for name, value in vars(module).items():
            is_time = isinstance(value, timedelta) and name not in OF_THE_CLOCKS
            if (deciding and is_time) or name in IN_SECONDS.get(module.__name__, ()):
                yield value


if __name__ == "__main__":
    divide_constants(float(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
