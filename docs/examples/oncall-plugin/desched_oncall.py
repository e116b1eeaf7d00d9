"""Pods of teams that are on call stay; their pods never land on canary nodes."""

from desched.plugin_api import Node, Plugin, Pod, View


class OnCall(Plugin):
    """Leaves teams alone while they are on call."""

    interface = 1
    teams: frozenset[str]

    def stays(self, pod: Pod, view: View) -> str | None:
        """A team that is on call keeps its pods where they are."""
        team = pod.labels.get("team")
        if team in self.teams:
            return f"team {team} is on call"
        return None

    def avoids(self, pod: Pod, node: Node, view: View) -> str | None:
        """Pods of any team keep off canary nodes."""
        if "team" in pod.labels and "canary" in node.labels:
            return "canary nodes are not for pods of teams"
        return None
