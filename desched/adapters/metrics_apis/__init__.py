"""The only home of metrics.k8s.io, which metrics-server answers, and of custom.metrics.k8s.io.

They have one instant of load for each node and pod, and no history. desched keeps its own samples,
so that windows can be trusted as those of Prometheus are.
"""
