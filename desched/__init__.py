"""desched: a load-aware descheduler for Kubernetes."""

__version__ = "0.1.0"
