"""Carrying a plan out: one eviction at a time, and only what is still right."""
