"""The vocabulary: immutable values without I/O that every other package speaks in.

Units live in names: `_millicores`, `_bytes`, `_ratio` (1.0 is all of it), `_seconds`.
"""
