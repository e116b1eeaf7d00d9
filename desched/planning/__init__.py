"""The functional core: a snapshot, a policy and a state become a plan.

Nothing here does I/O, reads a clock, logs or draws a random number. `planner` is the recipe; the
other modules are its steps.
"""
