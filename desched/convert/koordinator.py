"""Koordinator's LowNodeLoad as LoadAware."""

from desched.convert.balancing import (
    args_of,
    args_to_convert,
    convert_deviation,
    convert_limits,
    convert_scope,
    drop_other_plugins,
    drop_settings,
)
from desched.convert.draft import Draft, here, of_evictor
from desched.convert.evictor import (
    add_labels,
    convert_default_evictor,
    namespaces,
    set_namespaces,
    unknown_args,
)
from desched.convert.migration_controller import convert_migration_controller
from desched.convert.original import OriginalSection
from desched.convert.selectors import both, label_selector, selector_text
from desched.convert.thresholds import ALL, Bounds, bounds, set_bounds

PLUGIN = "LowNodeLoad"
CONTROLLER = "MigrationController"
_KEYS = ("lowThresholds", "highThresholds")
_DROPPED = {
    "nodeMetricExpirationSeconds": "desched always asks how old samples are.",
    "prodHighThresholds": "desched does not tell prod pods apart; all pods count.",
    "prodLowThresholds": "desched does not tell prod pods apart; all pods count.",
    "resourceWeights": "desched relieves the node with the largest excess of any resource first.",
    "detectorCacheTimeout": "Prometheus knows how long a node has been overloaded.",
}
_SETTINGS = {
    "leaderElection": "a setting; see --leader-elect.",
    "clientConnection": "a setting; see --kubeconfig and --context.",
    "healthzBindAddress": "a setting; see --listen-address.",
    "metricsBindAddress": "a setting; see --listen-address.",
    "enableProfiling": "a setting that desched has not.",
    "enableContentionProfiling": "a setting that desched has not.",
}


def convert_koordinator(root: OriginalSection, profile: OriginalSection, draft: Draft) -> None:
    """A DeschedulerConfiguration, by one of its profiles."""
    for key, text in _SETTINGS.items():
        root.dropped(key, text)
    root.seconds("deschedulingInterval")
    drop_settings(root)
    convert_limits(root, draft)
    nodes = both(selector_text(root, "nodeSelector"), selector_text(profile, "nodeSelector"))
    if nodes:
        draft.root["nodeSelector"] = nodes
    args = args_to_convert(profile, PLUGIN)
    if args is None:
        return
    drop_other_plugins(profile, (PLUGIN, CONTROLLER, "DefaultEvictor"))
    _convert_low_node_load(args, draft)
    controller = args_of(profile, CONTROLLER)
    lists = [namespaces(args.section("evictableNamespaces"))]
    if controller is not None:
        lists.append(namespaces(controller.section("namespaces")))
        convert_migration_controller(controller, draft)
    set_namespaces(draft, args, lists)
    evictor = args_of(profile, "DefaultEvictor")
    if evictor is not None:
        convert_default_evictor(evictor, draft)


def _convert_low_node_load(args: OriginalSection, draft: Draft) -> None:
    for key, text in _DROPPED.items():
        args.dropped(key, text)
    for key in ("paused", "dryRun"):
        if args.flag(key):
            args.held(key, "so nothing was evicted.")
    args.value("evictableNamespaces")
    if args.flag("nodeFit") is False:
        args.dropped("nodeFit", "whether a pod fits elsewhere is always checked here.")
    convert_scope(args, draft)
    deviation = convert_deviation(args, draft)
    if nodes := selector_text(args, "nodeSelector"):
        draft.load_aware["nodeSelector"] = nodes
    _convert_pod_selectors(args, draft)
    limits = bounds(args, _KEYS, here(), deviation=deviation)
    _drop_checks(args)
    pools = args.sections("nodePools")
    if pools:
        for pool in pools:
            _drop_checks(pool)
        limits = _convert_pools(args, pools, draft, limits, deviation=deviation)
    set_bounds(draft.load_aware, args, limits, _KEYS)
    draft.load_aware["duration"] = "5m"
    args.added(
        "koordlet measured there, over 5 minutes; desched reads Prometheus. Set the "
        "address here or with --prometheus-url.",
        here("metrics"),
    )
    unknown_args(args)


def _drop_checks(section: OriginalSection) -> None:
    section.dropped(
        "anomalyCondition",
        "desched forecasts from the past of the load whether an overload lasts; evictionPrice says "
        "how much of it a move must save.",
    )


def _convert_pod_selectors(args: OriginalSection, draft: Draft) -> None:
    """Only the first of several: all of them together would select more than one policy can."""
    selectors = [
        s for section in args.sections("podSelectors") if (s := label_selector(section, "selector"))
    ]
    if not selectors:
        return
    add_labels(draft, selectors[0])
    if len(selectors) > 1:
        text = f"only the first of {len(selectors)} selectors applies here, so fewer pods may move."
        args.changed("podSelectors", text, of_evictor("labelSelector"))


def _convert_pools(
    args: OriginalSection,
    pools: list[OriginalSection],
    draft: Draft,
    outside: Bounds,
    *,
    deviation: bool,
) -> Bounds:
    """The pools, and what holds for nodes outside: all of them name the same resources."""
    converted = []
    for index, pool in enumerate(pools):
        at = here("nodePools", index)
        distances = pool.flag("useDeviationThresholds")
        if distances is not None and distances != deviation:
            text = "pools cannot differ in this here, so the nodes of this one are left alone."
            pool.changed("useDeviationThresholds", text, at)
            own = Bounds({"cpu": 0}, {"cpu": ALL})
            for key in _KEYS:
                pool.value(key)
        else:
            own = bounds(pool, _KEYS, at, deviation=deviation)
        for key, text in _DROPPED.items():
            pool.dropped(key, text)
        name, nodes = pool.text("name") or f"pool-{index + 1}", selector_text(pool, "nodeSelector")
        converted.append((name, nodes or "", own))
        unknown_args(pool)
    resources = dict.fromkeys(r for *_, b in (*converted, ("", "", outside)) for r in b.target)
    everywhere = Bounds(
        {r: outside.low.get(r, 0) for r in resources},
        {r: outside.target.get(r, ALL) for r in resources},
    )
    names: dict[str, None] = {}
    sections = []
    for name, nodes, own in converted:
        unique = name if name not in names else f"{name}-{len(names) + 1}"
        names[unique] = None
        section = {"name": unique, "nodeSelector": nodes}
        sections.append({**section, "targetThresholds": own.target, "thresholds": own.low})
    draft.load_aware["nodePools"] = [
        {key: value for key, value in section.items() if value or key == "nodeSelector"}
        for section in sections
    ]
    text = (
        "a node belongs to the first pool that selects it, and then only that pool's thresholds "
        "count; there the thresholds of the top level counted as well."
    )
    args.changed("nodePools", text, here("nodePools"))
    return everywhere
