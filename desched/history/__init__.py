"""What a service did: the logbook, and its review."""
