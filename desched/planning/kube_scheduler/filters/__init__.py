"""The scheduler's filters, one module for each kind; a result is the mask of passing nodes.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins at v1.36, default profile.
"""
