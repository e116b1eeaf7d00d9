"""Plugins of others: packages with an entry point in the group `desched.plugins`.

They take part where the policy names them. What they can do is `desched.plugin_api.Plugin`: keep
pods where they are, and keep them off nodes. So none of them lifts what protects a pod.
"""

import traceback
from collections.abc import Callable, Mapping
from inspect import isroutine
from pathlib import PurePath
from typing import Any

import msgspec

from desched import plugin_api
from desched.errors import ConfigurationError
from desched.model.cluster import Node, Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.text import on_one_line, shortened
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import Rule
from desched.planning.eligibility.terms import Refused
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.plugins import PlacementLimit, Plugin
from desched.plugin_api.installed import installed, package
from desched.policy.policy import Policy
from desched.policy.wording import did_you_mean

ASKED = frozenset({"stays", "avoids"})
"""The methods that desched asks."""

MOST_ANSWERS = 3
"""How many answers about nodes a refusal names."""


class OutOfTree(Plugin, frozen=True):
    """A plugin of somebody else, by its name in the policy."""

    name: str
    plugin: plugin_api.Plugin

    @classmethod
    def named(cls, name: str, args: Mapping[str, Any]) -> "OutOfTree":
        """The installed plugin of this name with these args.

        Raises:
            ConfigurationError: it cannot take part, with a sentence that says why.
        """
        of = _loaded(name)
        keys = [field.encode_name for field in msgspec.structs.fields(of)]
        for key in args:
            if key not in keys:
                allowed = ", ".join(keys) or "none"
                raise ConfigurationError(
                    f"{name} refuses its args: unknown key {key}, allowed are {allowed}"
                    f"{did_you_mean(key, keys) or '.'}"
                )
        try:
            made = cls(name, msgspec.convert(args, of))
            hash(made)
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, msgspec.ValidationError) else _words(error)
            raise ConfigurationError(f"{name} refuses its args: {reason}.") from error
        return made

    @property
    def rules(self) -> tuple[Rule, ...]:
        """One rule, after all others."""
        return (Rule(RefusalReason.PLUGIN_RULE, in_cluster=self._stays),)

    def placement_limit(
        self, context: EligibilityContext, arrays: NodeArrays
    ) -> PlacementLimit | None:
        """The nodes that the plugin keeps pods off."""
        if type(self.plugin).avoids is plugin_api.Plugin.avoids:
            return None
        return _Avoided(self, context.derived(_view), arrays)

    def _stays(self, pod: Pod, context: EligibilityContext) -> Refused:
        view = context.derived(_view)
        return self.asked(RefusalReason.PLUGIN_RULE, lambda: self.plugin.stays(pod, view))

    def asked(self, reason: RefusalReason, question: Callable[[], object]) -> Refused:
        """What the plugin answers, with this reason; or that it failed, which refuses as well."""
        try:
            answer = question()
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever it is, the pod stays)
            return Finding(RefusalReason.PLUGIN_FAILED, f"{self.name}: {_where(error)}")
        if answer is None:
            return None
        if isinstance(answer, str) and answer.strip():
            return Finding(reason, f"{self.name}: {shortened(on_one_line(answer))}")
        given = "an empty text" if isinstance(answer, str) else f"{type(answer).__name__}, not str"
        return Finding(RefusalReason.PLUGIN_FAILED, f"{self.name}: answered {given}")


def others_in(policy: Policy) -> tuple[OutOfTree, ...]:
    """The plugins of others that take part, in their order."""
    return tuple(plugin for plugin in policy.plugins if isinstance(plugin, OutOfTree))


class _Avoided(PlacementLimit):
    """The nodes that a plugin of others keeps a pod off; all of them if it fails."""

    words = "node(s) are excluded by a plugin"
    reason = RefusalReason.PLUGIN_LIMIT

    def __init__(self, plugin: OutOfTree, view: plugin_api.View, arrays: NodeArrays) -> None:
        self._plugin = plugin
        self._view = view
        self._arrays = arrays
        self._judged: dict[str, tuple[Mask, tuple[Finding[RefusalReason], ...]]] = {}
        self._masks: dict[bytes, Mask] = {}  # many pods have the same

    def outside(self, pod: Pod) -> Mask:
        """The nodes that must not take the pod. Do not modify."""
        return self._of(pod)[0]

    def reason_for(self, pod: Pod) -> RefusalReason:
        """Whether the plugin excludes nodes or has failed."""
        _, answers = self._of(pod)
        return answers[0].reason if answers else self.reason

    def describe(self, pod: Pod) -> str:
        """What the plugin says of the nodes."""
        return "; ".join(answer.detail for answer in self._of(pod)[1])

    def _of(self, pod: Pod) -> tuple[Mask, tuple[Finding[RefusalReason], ...]]:
        if pod.uid not in self._judged:
            mask, answers = self._judge(pod)
            self._judged[pod.uid] = self._masks.setdefault(mask.tobytes(), mask), answers
        return self._judged[pod.uid]

    def _judge(self, pod: Pod) -> tuple[Mask, tuple[Finding[RefusalReason], ...]]:
        answers = [self._answer(pod, node) for node in self._arrays.nodes]
        given = dict.fromkeys(answer for answer in answers if answer is not None)
        failed = [answer for answer in given if answer.reason is RefusalReason.PLUGIN_FAILED]
        if failed:
            return self._arrays.all(), (failed[0],)
        excluded = iter(answers)
        mask = self._arrays.where(lambda _: next(excluded) is not None)
        return mask, tuple(given)[:MOST_ANSWERS]

    def _answer(self, pod: Pod, node: Node) -> Refused:
        plugin, view = self._plugin.plugin, self._view
        return self._plugin.asked(
            RefusalReason.PLUGIN_LIMIT, lambda: plugin.avoids(pod, node, view)
        )


def _view(context: EligibilityContext) -> plugin_api.View:
    return plugin_api.View(context.cluster, context.now)


def _loaded(name: str) -> type[plugin_api.Plugin]:
    """The class of an installed plugin, if it is for this interface."""
    points = [point for point in installed() if point.name == name]
    if not points:
        names = sorted({point.name for point in installed()})
        raise ConfigurationError(
            f"no plugin {name} is installed where this runs; installed are: "
            f"{', '.join(names) or 'none'}{did_you_mean(name, names) or '.'}"
        )
    if len(points) > 1:
        of = " and ".join(map(package, points))
        raise ConfigurationError(f"several packages have a plugin {name}; keep one of {of}.")
    (point,) = points
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{name} cannot be loaded: {_words(error)}.") from error
    if not (isinstance(loaded, type) and issubclass(loaded, plugin_api.Plugin)):
        raise ConfigurationError(
            f"{name} is no plugin: {point.value} is not a subclass of desched.plugin_api.Plugin."
        )
    version, ours = getattr(loaded, "interface", None), plugin_api.INTERFACE_VERSION
    if version != ours:
        stated = "states no version of the interface" if version is None else f"is for {version}"
        raise ConfigurationError(
            f"{name} {stated}, and this desched has interface {ours}; install a {name} for it."
        )
    _refuse_unasked(name, loaded)
    return loaded


def _refuse_unasked(name: str, loaded: type[plugin_api.Plugin]) -> None:
    """Refuse a plugin that keeps no pod because its author misspelled a method."""
    own = [vars(each) for each in loaded.__mro__ if not issubclass(plugin_api.Plugin, each)]
    methods = {key for of in own for key, value in of.items() if isroutine(value)}
    for method in sorted(methods - ASKED):
        if not method.startswith("_"):
            raise ConfigurationError(
                f"{name} has a method {method}, which desched never asks"
                f"{did_you_mean(method, ASKED) or '; begin its name with _.'}"
            )
    if not methods & ASKED:
        raise ConfigurationError(f"{name} has none of the methods {' and '.join(sorted(ASKED))}.")


def _where(error: BaseException) -> str:
    """In which line what happened."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{PurePath(last.filename).name}:{last.lineno}: {_words(error)}"


def _words(error: BaseException) -> str:
    """The exception on one line, also if it cannot be shown itself."""
    lines = traceback.format_exception_only(error)
    return shortened(on_one_line(lines[-1].strip())).removesuffix(".")
