"""Executes a plan, one confirmed eviction at a time, and follows up the results."""
