"""The cluster, kept up to date by list and watch, for runs of many cycles."""
