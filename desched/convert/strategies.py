"""The strategies of descheduler/v1alpha1, of which LowNodeUtilization becomes LoadAware."""

from desched.convert.balancing import convert_limits, convert_scope
from desched.convert.draft import Draft, here
from desched.convert.evictor import (
    add_labels,
    convert_priority,
    convert_switches,
    namespaces,
    set_namespaces,
    unknown_args,
)
from desched.convert.node_utilization import PLUGIN, set_usual
from desched.convert.original import OriginalSection
from desched.convert.selectors import label_selector, selector_text

_THRESHOLDS = "nodeResourceUtilizationThresholds"


def convert_strategies(root: OriginalSection, draft: Draft) -> None:
    """A DeschedulerPolicy of v1alpha1."""
    convert_limits(root, draft)
    convert_switches(root, draft)
    if nodes := selector_text(root, "nodeSelector"):
        draft.root["nodeSelector"] = nodes
    strategies = root.section("strategies")
    for name in strategies:
        if name != PLUGIN:
            text = "desched runs only what LoadAware does; another descheduler can run it beside."
            strategies.dropped(name, text)
    if PLUGIN not in strategies:
        strategies.refuse("", f"there is no {PLUGIN}, so there is nothing to convert.")
        return
    strategy = strategies.section(PLUGIN)
    if not strategy.flag("enabled"):
        strategy.held("enabled", f"{PLUGIN} was not enabled, so it did nothing.")
    strategy.value("weight")
    params = strategy.section("params")
    convert_switches(params, draft)
    _convert_priority(params, draft)
    if labels := label_selector(params, "labelSelector"):
        add_labels(draft, labels)
    thresholds = params.section(_THRESHOLDS)
    convert_scope(thresholds, draft)
    set_usual(thresholds, draft, "of what pods request")
    lists = (params.section(key) for key in ("namespaces", "evictableNamespaces"))
    set_namespaces(draft, params, [namespaces(each) for each in lists])
    root.added("set the address of Prometheus here or with --prometheus-url.", here("metrics"))
    for section in (thresholds, params, strategy):
        unknown_args(section)


def _convert_priority(params: OriginalSection, draft: Draft) -> None:
    value, name = params.value("thresholdPriority"), params.text("thresholdPriorityClassName")
    shape = {"value": value} if value is not None else {"name": name}
    if value is not None or name:
        convert_priority(params.standing_for("thresholdPriority", shape), draft)
