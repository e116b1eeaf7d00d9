"""Whatever the scores of another scheduler are within their bounds, the forecast has its choice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from desched.planning.kube_scheduler.scores.node_sampling import shares_by_bounds

SCORES = st.tuples(
    st.integers(0, 30), st.integers(0, 9), st.floats(0, 1), st.booleans(), st.booleans()
)


@given(st.lists(SCORES, min_size=1, max_size=12), st.integers(1, 12))
def test_the_node_with_the_highest_score_in_the_sample_is_possible(
    drawn: list[tuple[int, int, float, bool, bool]], sample: int
) -> None:
    least = np.array([low for low, *_ in drawn], dtype=float)
    most = least + np.array([wide for _, wide, *_ in drawn])
    scores = least + (most - least) * np.array([at for _, _, at, *_ in drawn])
    feasible = np.array([fits for *_, fits, _ in drawn])
    shares = shares_by_bounds(least, most, feasible, sample)
    assert (shares[~feasible] == 0).all()
    if not feasible.any():
        return
    assert abs(shares.sum() - 1) < 1e-9
    seen = np.flatnonzero(feasible)
    # Those that are preferred by the draw are looked at first.
    first = sorted(seen, key=lambda i: not drawn[i][4])[:sample]
    winner = max(first, key=lambda i: scores[i])
    assert shares[winner] > 0
