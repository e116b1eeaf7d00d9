"""The vocabulary: immutable values without I/O that all other packages use.

Units live in names: `_millicores`, `_bytes`, `_ratio` (1.0 is all of it), `_seconds`.

Structs are excluded from garbage collection (`gc=False`). They have only values and cannot form
cycles; to visit hundreds of thousands of them in every collection would take longer than planning.
"""
