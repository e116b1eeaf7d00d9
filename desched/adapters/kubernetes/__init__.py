"""The Kubernetes API server behind the ports; the only home of the kubernetes package."""
