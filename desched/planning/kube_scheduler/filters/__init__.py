"""The scheduler's filters over nodes as columns, one module for each kind.

Each gives a mask: on which nodes a pod passes it. They follow kube-scheduler 1.36
(pkg/scheduler/framework/plugins) with its default profile.
"""
