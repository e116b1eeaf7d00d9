"""The only home of metrics.k8s.io, the API that metrics-server answers.

It has one instant of load for each node and pod, and no history. desched keeps its own samples, so
that windows can be trusted as those of Prometheus are.
"""
