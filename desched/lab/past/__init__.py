"""The past of a real cluster, replayed with a policy in virtual time."""
