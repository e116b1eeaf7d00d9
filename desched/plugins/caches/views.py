"""What is seen of caches of models."""

from collections.abc import Iterator

from desched.model.report import CycleReport
from desched.plugins.caches.facts import CacheFacts
from desched.wording.plugin_views import Gauge, PluginViews


class CacheViews(PluginViews):
    """How many nodes hold each model."""

    def gauges(self, report: CycleReport) -> Iterator[Gauge]:
        """The nodes of each model."""
        facts = CacheFacts.of(report.facts) or CacheFacts()
        yield Gauge(
            "desched_model_nodes",
            "Nodes that hold a model that pods need, of up to 20 models.",
            ["model"],
            (([model.model], model.nodes) for model in facts.models),
        )
