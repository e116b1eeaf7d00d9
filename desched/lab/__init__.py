"""The simulation: an in-memory cluster in virtual time, behind the same ports as the real one.

It is what `desched demo` shows and what tests run against; `tests/contracts` holds it to the
behaviour of a real control plane. Its scheduler and its arithmetic of budgets share no code with
`desched.planning`, so that each can catch the other's mistakes. `past` replays recorded days in it,
which `prometheus` reads.
"""
