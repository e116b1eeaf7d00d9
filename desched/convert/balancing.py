"""What plugins that relieve loaded nodes have in common, and how LoadAware differs from them."""

from desched.convert.draft import Draft, here
from desched.convert.original import OriginalSection

_DEVIATION = (
    "the mean is that of measured load, and no node below 50 % is overloaded (deviationFloor)."
)
_ONE_IDLE_NODE = (
    "0 requires one node below all thresholds there, but none here: it becomes 1, which requires "
    "two. Remove the key to relieve nodes even if none is that idle."
)


def convert_scope(section: OriginalSection, draft: Draft) -> None:
    """How many nodes must be underloaded."""
    number = section.count("numberOfNodes") or 0
    draft.load_aware["numberOfNodes"] = number or 1
    if not number:
        at = here("numberOfNodes")
        if "numberOfNodes" in section:
            section.changed("numberOfNodes", _ONE_IDLE_NODE, at)
        else:
            section.added(_ONE_IDLE_NODE, at)


def convert_deviation(section: OriginalSection, draft: Draft) -> bool:
    """Whether thresholds are distances from the mean."""
    deviation = section.flag("useDeviationThresholds") or False
    if deviation:
        draft.load_aware["useDeviationThresholds"] = True
        at = here("useDeviationThresholds")
        section.changed("useDeviationThresholds", _DEVIATION, at)
    return deviation


def convert_limits(root: OriginalSection, draft: Draft) -> None:
    """The limits of a cycle that stand above the profiles."""
    for key in (
        "maxNoOfPodsToEvictPerNode",
        "maxNoOfPodsToEvictPerNamespace",
        "maxNoOfPodsToEvictTotal",
    ):
        if (limit := root.count(key)) is not None:
            draft.root[key] = limit


def drop_settings(root: OriginalSection) -> None:
    """What is not policy but how the process runs."""
    interval = root.value("deschedulingInterval")
    root.dropped("deschedulingInterval", f"a setting; start desched with --interval {interval}.")
    if root.flag("dryRun"):
        root.held("dryRun", "it was a dry run; start desched with --dry-run for one.")


def drop_other_plugins(profile: OriginalSection, kept: tuple[str, ...]) -> None:
    """What the profile runs besides the plugins that are converted."""
    plugins = profile.section("plugins")
    for point in plugins:
        names = enabled_at(plugins, point)
        others = [name for name in names if name not in kept]
        if others:
            text = f"desched runs no {', '.join(others)}; another descheduler can run it beside."
            plugins.dropped(point, text)


def args_to_convert(profile: OriginalSection, plugin: str) -> OriginalSection | None:
    """The arguments of the plugin that relieves nodes; without them the profile is refused."""
    args = args_of(profile, plugin)
    if args is None:
        profile.refuse("", f"{plugin} has no pluginConfig, so there is nothing to convert.")
    elif plugin not in enabled_at(profile.section("plugins"), "balance"):
        profile.held("plugins", f"{plugin} was not enabled at balance, so it did nothing.")
    return args


def enabled_at(plugins: OriginalSection, point: str) -> list[str]:
    """The plugins that are enabled at an extension point, in both spellings."""
    listed = plugins.section(point).value("enabled")
    items = listed if isinstance(listed, list) else []
    names = (item.get("name") if isinstance(item, dict) else item for item in items)
    return [name for name in names if isinstance(name, str)]


def args_of(profile: OriginalSection, plugin: str) -> OriginalSection | None:
    """The arguments of a plugin of the profile, None if it is not configured."""
    args = None
    for config in profile.sections("pluginConfig"):
        if config.text("name") != plugin:
            continue
        if args is not None:
            config.refuse("", f"{plugin} is configured twice; remove one of the two.")
        args = config.section("args")
        for key in config.unread():
            config.dropped(key, "had no effect there; it is not an argument of the plugin.")
    return args
