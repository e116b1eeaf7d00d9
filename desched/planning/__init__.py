"""The functional core: a snapshot, a policy and a state become a plan.

Nothing here does I/O, reads a clock, logs or draws a random number. `planner` reads as the recipe;
the other modules are its steps, in the order in which it uses them.
"""
