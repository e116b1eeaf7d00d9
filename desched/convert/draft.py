"""The policy that a conversion writes, as it grows."""

from typing import Any

from desched.policy_file.upstream_plugins import DEFAULT_EVICTOR, LOAD_AWARE
from desched.policy_keys.findings import KeyPath
from desched.policy_keys.section import API_VERSION, KIND

_PLUGINS = {DEFAULT_EVICTOR: 0, LOAD_AWARE: 1}
"""Where each stands in pluginConfig."""
_ORDER = (
    "metrics",
    "targetThresholds",
    "thresholds",
    "useDeviationThresholds",
    "numberOfNodes",
    "duration",
    "evictionPrice",
    "nodeSelector",
    "nodePools",
    "evictableNamespaces",
    "evictionLimits",
    "followUp",
)


class Draft:
    """A policy with one profile; its args have no key that is None."""

    def __init__(self) -> None:
        self.name = "converted"
        self.root: dict[str, Any] = {}
        self.evictor: dict[str, Any] = {}
        self.load_aware: dict[str, Any] = {"metrics": {"type": "prometheus"}}

    def limit(self, key: str, value: int | str | dict[str, int]) -> None:
        """Set one of `evictionLimits`."""
        self.load_aware.setdefault("evictionLimits", {})[key] = value

    def hold(self) -> None:
        """Evict nothing."""
        self.limit("total", 0)

    def document(self) -> dict[str, Any]:
        """The policy as a value."""
        args = self.load_aware
        ordered_keys = [key for key in _ORDER if key in args]
        ordered = {key: args[key] for key in (*ordered_keys, *(k for k in args if k not in _ORDER))}
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            **self.root,
            "profiles": [
                {
                    "name": self.name,
                    "pluginConfig": [
                        {
                            "name": DEFAULT_EVICTOR,
                            **({"args": self.evictor} if self.evictor else {}),
                        },
                        {"name": LOAD_AWARE, "args": ordered},
                    ],
                    "plugins": {"balance": {"enabled": [LOAD_AWARE]}},
                }
            ],
        }


def here(*keys: str | int) -> KeyPath:
    """The path of a key of LoadAware in the document of a draft."""
    return ("profiles", 0, "pluginConfig", _PLUGINS[LOAD_AWARE], "args", *keys)


def of_evictor(*keys: str | int) -> KeyPath:
    """The path of a key of DefaultEvictor in the document of a draft."""
    return ("profiles", 0, "pluginConfig", _PLUGINS[DEFAULT_EVICTOR], "args", *keys)


HOLD = here("evictionLimits", "total")
