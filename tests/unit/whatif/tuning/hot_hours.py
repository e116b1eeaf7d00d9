"""A small past with two hot times, of which a search sees the first and is judged by the second."""

from typing import Any

from desched.history.past import Past
from desched.policy.loading import PolicyText
from desched.whatif.past.run import Span
from tests.unit.whatif.past.pasts import Life, a_past, at

STEPS = 96
FIRST, LATER = range(30, 50), range(74, 92)
POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: tuned
  pluginConfig:
  - name: LoadAware
    args:
      metrics: {type: prometheus}
      targetThresholds: {cpu: 80}
      thresholds: {cpu: 30}
      sustainedFor: 30m
  plugins: {balance: {enabled: [LoadAware]}}
"""
TODAY = PolicyText(POLICY, "today.yaml")
SPAN = Span(at(12), at(STEPS))


def hot_hours(first: range = FIRST, later: range = LATER, **changes: Any) -> Past:
    """While it is hot, four pods and the host use 92.5 % of a; b and c are always calm."""
    hot = {*first, *later}
    cores = [0.8 if step in hot else 0.3 for step in range(STEPS)]
    lives = [
        *(Life(f"web-{i}", "a", cores) for i in range(2)),
        *(Life(f"db-{i}", "a", cores, of="db") for i in range(2)),
        Life("web-8", "b", [0.2] * STEPS),
        Life("db-9", "c", [0.2] * STEPS, of="db"),
    ]
    return a_past(lives, steps=STEPS, **changes)
