"""What people see of a search in several clusters, and the file of the common policy."""

from msgspec.structs import replace

from desched.policy.loading import parse_policy
from desched.views.rendering import rendered
from desched.views.tuned_clusters import print_clusters
from desched.views.tuned_policy import common_policy_text
from desched.whatif.tuning.figures import ClustersTuned, ClusterTuned
from desched.whatif.tuning.replays import Score
from tests.unit.views.test_tuning import SPACE, tuned


def clusters_tuned() -> ClustersTuned:
    """A cluster with a policy of its own and one without, and a common policy."""
    shown, _ = tuned()
    kept = replace(shown, recommended=None)
    return ClustersTuned(
        policy=shown.policy,
        clusters=(
            ClusterTuned("prod", shown, Score(21.0, 300.0, 4)),
            ClusterTuned("stage", kept, Score(22.0, 300.0, 3)),
        ),
        tried=7,
        interrupted=False,
        today=shown.today,
        recommended=shown.recommended,
    )


def table(found: ClustersTuned) -> str:
    return rendered(found, print_clusters, "table")


def test_the_common_policy_is_shown_beside_today_and_that_of_each_cluster() -> None:
    found = clusters_tuned()
    text = table(found)
    lines = [line.split("  ") for line in text.splitlines()]
    today, own = found.clusters[0].tuned.today_judged, found.clusters[0].tuned.recommended
    assert own is not None
    row = [
        "prod",
        f"{today.node_minutes:.0f} / {today.evictions}",
        f"{own.judged.node_minutes:.0f} / {own.judged.evictions}",
        "21 / 4",
    ]
    assert row in [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert "as today" in text.splitlines()[-1]
    assert "Recommended for all clusters: 1 change to today.yaml." in text


def test_a_search_without_a_common_policy_says_why() -> None:
    assert "Keep today.yaml as the common policy" in table(
        replace(clusters_tuned(), recommended=None)
    )
    ended = replace(clusters_tuned(), recommended=None, today=None, tried=0)
    assert "ended before it had a common policy" in table(ended)


def test_the_file_of_the_common_policy_is_the_recommended_one() -> None:
    _, best = tuned()
    text = common_policy_text(SPACE, best.candidate.values, clusters_tuned())
    assert "for the clusters prod, stage" in text
    assert parse_policy(text, "better.yaml").policy.digest == best.candidate.policy.digest
