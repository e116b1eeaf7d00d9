"""What ran where, and what a service did: the past of a cluster, the logbook, and its review."""
