"""The composition root: settings become adapters, and these a run of desched."""
