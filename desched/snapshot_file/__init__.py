"""Snapshots as files: all that a plan needs, to plan, explain and simulate it elsewhere."""
