"""The vocabulary: immutable values without I/O that every other package speaks in.

Units live in names: `_millicores`, `_bytes`, `_ratio` (1.0 is all of it), `_seconds`.

Structs are kept out of garbage collection (`gc=False`): they hold values only, so they cannot form
cycles, and to look at hundreds of thousands of them in every collection would cost more than to
plan.
"""
