"""How virtual machines take part in a decision."""

from collections import Counter
from collections.abc import Iterable, Mapping

from desched.model.cluster import MIGRATING_ANNOTATION, Pod
from desched.model.names import Form
from desched.model.plan import RefusalReason
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import Rule
from desched.planning.eligibility.terms import Why
from desched.planning.plugins import Plugin
from desched.planning.selection.limits import LimitUse
from desched.plugins.virtual_machines.kubevirt import (
    TAKES_OVER,
    Key,
    is_taken_over,
    is_virtual_machine,
    machine_uid,
    migration_limits,
    migration_sources,
    migrations_under_way,
)


def _sources(context: EligibilityContext) -> Mapping[str, str]:
    return migration_sources(context.cluster.pods)


def _migrating(pod: Pod, context: EligibilityContext) -> Why:
    if not is_virtual_machine(pod):
        return None
    if pod.migrating:
        return "KubeVirt migrates it"
    return machine_uid(pod) in context.derived(_sources) and "it has a pod on another node, too"


def _not_migratable(pod: Pod, context: EligibilityContext) -> Why:
    """Machines that an eviction could stop instead of moving them."""
    if not is_virtual_machine(pod):
        return None
    if TAKES_OVER not in pod.annotations:
        return f"no annotation {TAKES_OVER}"
    budgets = context.cluster.budgets_of(pod)
    if not budgets:
        return "no PodDisruptionBudget of KubeVirt protects it"
    open_ones = [str(budget) for budget in budgets if budget.disruptions_allowed > 0]
    return bool(open_ones) and f"{', '.join(open_ones)} would allow to stop it"


class VirtualMachines(Plugin, frozen=True):
    """Moves machines by their migration, a few at a time."""

    annotations = dict.fromkeys((TAKES_OVER, MIGRATING_ANNOTATION), Form.LABELED)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """A machine that migrates, or cannot, keeps its pod."""
        return (
            Rule(
                RefusalReason.MIGRATION_UNDER_WAY,
                in_cluster=_migrating,
                before=RefusalReason.REQUESTS_UNKNOWN,
            ),
            Rule(
                RefusalReason.NOT_MIGRATABLE,
                in_cluster=_not_migratable,
                before=RefusalReason.WITHOUT_BUDGET,
            ),
        )

    def takes_over(self, pod: Pod) -> bool:
        """Whether KubeVirt answers the eviction of the pod and moves its machine."""
        return is_taken_over(pod)

    def quota_uses(self, pod: Pod, _: EligibilityContext) -> Iterable[LimitUse]:
        """The migrations at a time, as KubeVirt limits them."""
        for key, limit in migration_limits(pod):
            detail = f"{limit} from a node" if key[1] else f"{limit} at a time"
            yield LimitUse(key, limit, RefusalReason.LIMIT_MIGRATIONS, detail)

    def under_way(self, context: EligibilityContext, state: State) -> Counter[Key]:
        """The migrations under way."""
        return migrations_under_way(context.derived(_sources), state)
