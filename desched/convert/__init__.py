"""Policies of other deschedulers, converted, with a note for each key that changes its meaning."""
